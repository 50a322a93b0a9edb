// optimus checkpoint and optimus convert as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const fs::path kReference = fs::path(OPTIMUS_SOURCE_DIR) / "tests/data/reference";

// Types, shapes and bytes of all tensors, by name.
std::map<std::string, std::string> contents(const fs::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, std::string> result;
  for (const SafetensorsEntry& entry : file.entries()) {
    std::string bytes(static_cast<std::size_t>(entry.end - entry.begin), '\0');
    file.read(entry, View(reinterpret_cast<std::byte*>(bytes.data()), entry.dtype, entry.shape));
    result[entry.name] = std::string(dtype_name(entry.dtype)) + entry.shape.str() + bytes;
  }
  return result;
}

ProgramResult expect_done(const std::vector<std::string>& args) {
  ProgramResult result = run_optimus(args);
  EXPECT_EQ(result.code, 0) << result.err;
  return result;
}

TEST(ConvertCommand, BringsEveryReferenceModelBackByteForByte) {
  for (const char* name : {"tiny-olmoe", "tiny-olmoe-norm", "tiny-olmo", "tiny-olmo-clip"}) {
    const fs::path work = fresh_folder(name), start = work / "start", back = work / "back";
    expect_done({"convert", "from-hf", (kReference / name).string(), "--out", start.string()});
    expect_done({"convert", "to-hf", start.string(), "--out", back.string()});
    EXPECT_EQ(contents(back / "model.safetensors"), contents(kReference / name / "model.safetensors")) << name;
    const auto before = nlohmann::json::parse(read_file(kReference / name / "config.json")), after = nlohmann::json::parse(read_file(back / "config.json"));
    for (const auto& key : {"architectures", "vocab_size", "hidden_size", "num_hidden_layers", "num_key_value_heads", "clip_qkv", "tie_word_embeddings"}) {
      EXPECT_EQ(before.value(key, nlohmann::json()), after.value(key, nlohmann::json())) << name << " " << key;
    }
  }
}

TEST(ConvertCommand, WritesNothingOverTheCheckpointsOfARun) {
  const fs::path work = fresh_folder("run"), out = work / "checkpoints" / "slot-0";
  fs::create_directories(out);
  write_file_atomically(work / "run.toml", "");
  const auto result = run_optimus({"convert", "from-hf", (kReference / "tiny-olmoe").string(), "--out", out.string()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(out.string()), HasSubstr("choose another folder")));
  EXPECT_TRUE(fs::is_empty(out));
}

TEST(ConvertCommand, KeepsBf16AndWidensItExactly) {
  const fs::path work = fresh_folder("bf16");
  const auto path = [&](const char* name) { return (work / name).string(); };
  expect_done({"convert", "from-hf", (kReference / "tiny-olmoe").string(), "--out", path("narrow"), "--dtype", "bf16"});
  expect_done({"convert", "to-hf", path("narrow"), "--out", path("narrow-hf")});
  expect_done({"convert", "from-hf", path("narrow-hf"), "--out", path("again")});
  expect_done({"convert", "to-hf", path("again"), "--out", path("wide-hf"), "--dtype", "fp32"});
  expect_done({"convert", "from-hf", path("wide-hf"), "--out", path("third"), "--dtype", "bf16"});
  expect_done({"convert", "to-hf", path("third"), "--out", path("third-hf")});
  EXPECT_EQ(contents(work / "narrow-hf" / "model.safetensors"), contents(work / "third-hf" / "model.safetensors"));
  EXPECT_THAT(read_file(work / "narrow-hf" / "config.json"), HasSubstr("bfloat16"));
  const auto json = nlohmann::json::parse(expect_done({"checkpoint", "inspect", path("again"), "--json"}).out);
  EXPECT_EQ(json["weights_dtype"], "bf16");
  EXPECT_EQ(json["full_state"], false);
}

TEST(CheckpointCommand, LooksAtVerifiesAndJoinsTheCheckpointsOfARun) {
  const fs::path work = fresh_folder("run");
  const fs::path config = write_toy_config(work, prepare_ids(work, some_ids(400, 61), 16));
  const std::string run = (work / "run").string();
  expect_done({"pretrain", config.string(), "--set", "run.dir=\"" + run + "\"", "--set", "run.steps=2", "--set", "checkpoint.interval=1"});
  const auto json = nlohmann::json::parse(expect_done({"checkpoint", "inspect", run, "--json"}).out);
  EXPECT_EQ(json["step"], 2);
  EXPECT_EQ(json["full_state"], true);
  EXPECT_THAT(expect_done({"checkpoint", "inspect", run}).out, AllOf(HasSubstr("step 2"), HasSubstr("exp_avg_sq.model.embed_tokens.weight")));
  EXPECT_THAT(expect_done({"checkpoint", "verify", run}).out, HasSubstr("is whole: step 2"));
  expect_done({"checkpoint", "consolidate", run, "--out", (work / "all.safetensors").string()});
  const SafetensorsFile all(work / "all.safetensors");
  EXPECT_EQ(all.metadata().at("step"), "2");
  for (const char* prefix : {"model.", "master.", "exp_avg.", "exp_avg_sq."})
    EXPECT_NE(all.find(std::string(prefix) + "model.layers.1.mlp.experts.3.down_proj.weight"), nullptr) << prefix;
  expect_done({"convert", "to-hf", run, "--out", (work / "hf").string()});
  EXPECT_TRUE(fs::exists(work / "hf" / "model.safetensors"));

  const fs::path slot = work / "run" / "checkpoints" / "slot-0", file = slot / "rank-00000-0.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomically(file, bytes);
  for (const auto& args : {std::vector<std::string>{"checkpoint", "verify", slot.string()},
                           {"checkpoint", "consolidate", slot.string(), "--out", (work / "x").string()},
                           {"convert", "to-hf", slot.string(), "--out", (work / "y").string()}}) {
    const ProgramResult result = run_optimus(args);
    EXPECT_EQ(result.code, 4) << args[1];
    EXPECT_THAT(result.err, AllOf(HasSubstr(file.string()), HasSubstr("altered"))) << args[1];
  }
  EXPECT_FALSE(fs::exists(work / "x") || fs::exists(work / "y"));
}

struct Mistake {
  std::vector<std::string> args;
  int code;
  std::string message;
};

TEST(CheckpointCommand, SaysWhatIsWrongWithBadInput) {
  const fs::path work = fresh_folder("bad");
  const auto path = [&](const char* name) { return (work / name).string(); };
  const std::string model = (kReference / "tiny-olmo").string();
  fs::create_directory(work / "empty");
  fs::create_directory(work / "garbage");
  write_file_atomically(work / "garbage" / "manifest.json", "garbage");
  fs::copy(model, work / "short");
  fs::resize_file(work / "short" / "model.safetensors", 1000);
  fs::copy(kReference / "tiny-olmoe", work / "other");
  fs::copy_file(fs::path(model) / "config.json", work / "other" / "config.json", fs::copy_options::overwrite_existing);
  const std::vector<Mistake> mistakes{
      {{"checkpoint", "verify", path("none")}, 4, "does not exist"},
      {{"checkpoint", "verify", path("empty")}, 4, "not a checkpoint"},
      {{"checkpoint", "inspect", path("garbage")}, 4, "not a manifest"},
      {{"checkpoint", "consolidate", path("empty")}, 2, "--out is required"},
      {{"checkpoint"}, 2, "subcommand"},
      {{"convert", "to-hf", path("empty"), "--out", path("x")}, 4, "is no model"},
      {{"convert", "to-hf", model, "--out", path("x")}, 4, "Hugging Face folder already"},
      {{"convert", "to-hf", path("empty"), "--out", path("x"), "--dtype", "fp8"}, 2, "fp8"},
      {{"convert", "from-hf", path("short"), "--out", path("x")}, 4, "cut short"},
      {{"convert", "from-hf", path("other"), "--out", path("x")}, 4, "mlp.experts.7.up_proj.weight is unknown"},
      {{"convert", "from-hf", path("empty"), "--out", path("x")}, 2, "config.json"},
      {{"convert", "from-hf", model, "--out", path("short")}, 1, "other things than a checkpoint"},
      {{"convert", "from-hf", model, "--out", "/proc/none"}, 1, "/proc/none"},
  };
  for (const Mistake& mistake : mistakes) {
    const ProgramResult result = run_optimus(mistake.args);
    EXPECT_EQ(result.code, mistake.code) << testing::PrintToString(mistake.args) << result.err;
    EXPECT_THAT(result.err, HasSubstr(mistake.message)) << testing::PrintToString(mistake.args);
  }
  EXPECT_FALSE(fs::exists(work / "x"));
}

}  // namespace
}  // namespace optimus::test
