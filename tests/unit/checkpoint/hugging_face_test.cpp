#include "optimus/checkpoint/hugging_face.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kExperts = "model.layers.0.mlp.experts.{}.up_proj.weight";

std::vector<ParamSpec> specs() {
  return {{.name = "model.embed_tokens.weight", .shape = {7, 4}},
          {.name = kExperts, .shape = {3, 5, 4}, .is_expert = true},
          {.name = "model.norm.weight", .shape = {4}}};
}

// Value of element i of a Hugging Face tensor: exact in every type.
float value_of(const std::string& name, Index i) {
  return static_cast<float>((static_cast<Index>(name.size()) * 31 + static_cast<Index>(name[27 % name.size()]) + i) % 200) - 100.0F;
}

// Takes the upper bits of a float, which is exact for these small integers.
std::vector<std::byte> values(const std::string& name, Index count, DType dtype) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * dtype_bytes(dtype)));
  for (Index i = 0; i < count; ++i) {
    const float value = value_of(name, i);
    if (dtype == DType::kF32) std::memcpy(bytes.data() + 4 * i, &value, 4);
    const BFloat16 bf16(value);
    if (dtype == DType::kBF16) std::memcpy(bytes.data() + 2 * i, &bf16, 2);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto half = value == 0 ? std::uint32_t{0} : (bits >> 16 & 0x8000U) | (((bits >> 23 & 0xffU) - 112U) << 10) | (bits >> 13 & 0x3ffU);
    if (dtype == DType::kF16) std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

using Tensors = std::vector<std::pair<std::string, Shape>>;

Tensors all_tensors() {
  Tensors tensors{{"model.embed_tokens.weight", {7, 4}}, {"model.norm.weight", {4}}};
  for (Index e = 0; e < 3; ++e) tensors.emplace_back(specs()[1].tensor_name(e), Shape{5, 4});
  return tensors;
}

void write_file(const std::filesystem::path& path, const Tensors& tensors, DType dtype) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, shape] : tensors) entries.push_back({.name = name, .dtype = dtype, .shape = shape});
  SafetensorsWriter writer(path, entries);
  for (const auto& [name, shape] : tensors) writer.write(values(name, shape.count(), dtype));
  writer.commit();
}

std::vector<float> read(const HfWeights& weights, const ParamSpec& spec, const Box& box, Index begin, Index end) {
  std::vector<float> out(static_cast<std::size_t>(end - begin), -1);
  weights.read(spec, box, begin, View(reinterpret_cast<std::byte*>(out.data()), DType::kF32, {end - begin}));
  return out;
}

std::string problem_of(const std::filesystem::path& folder, bool tied_head = true) {
  try {
    const HfWeights weights(folder, specs(), tied_head);
    return "";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

TEST(HfWeights, ReadsAnyPartOfStackedExpertsInEveryType) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const TemporaryFolder folder;
    write_file(folder.path() / "model.safetensors", all_tensors(), dtype);
    const HfWeights weights(folder.path(), specs(), false);
    const ParamSpec experts = specs()[1];
    const Box box{.begin = {1, 1, 1}, .shape = {2, 3, 2}};
    const auto found = read(weights, experts, box, 1, 11);
    for (Index i = 1; i < 11; ++i) {
      const Index e = 1 + i / 6, f = 1 + i / 2 % 3, d = 1 + i % 2;
      EXPECT_EQ(found[static_cast<std::size_t>(i - 1)], value_of(experts.tensor_name(e), f * 4 + d)) << dtype_name(dtype) << " element " << i;
    }
    const auto norm = read(weights, specs()[2], Box::whole({4}), 0, 4);
    for (Index i = 0; i < 4; ++i) EXPECT_EQ(norm[static_cast<std::size_t>(i)], value_of("model.norm.weight", i));
  }
}

TEST(HfWeights, ReadsIndexedParts) {
  const TemporaryFolder folder;
  Tensors tensors = all_tensors();
  const Tensors first(tensors.begin(), tensors.begin() + 3), second(tensors.begin() + 3, tensors.end());
  write_file(folder.path() / "a.safetensors", first, DType::kF32);
  write_file(folder.path() / "b.safetensors", second, DType::kBF16);
  nlohmann::json map;
  for (const auto& [name, shape] : first) map[name] = "a.safetensors";
  for (const auto& [name, shape] : second) map[name] = "b.safetensors";
  const auto write_index = [&] {
    test::write_bytes(folder.path() / "model.safetensors.index.json", nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
  };
  write_index();
  const HfWeights weights(folder.path(), specs(), false);
  const auto all = read(weights, specs()[1], Box::whole({3, 5, 4}), 0, 60);
  for (Index i = 0; i < 60; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], value_of(specs()[1].tensor_name(i / 20), i % 20));

  map["model.norm.weight"] = "b.safetensors";
  map["nowhere"] = "../a.safetensors";
  write_index();
  EXPECT_THAT(problem_of(folder.path()), AllOf(HasSubstr("model.norm.weight is in a.safetensors, but the index does not say so"),
                                               HasSubstr("model.norm.weight is not in b.safetensors"), HasSubstr("nowhere")));
  map["model.norm.weight"] = "c.safetensors";
  map.erase("nowhere");
  write_index();
  std::filesystem::resize_file(folder.path() / "b.safetensors", std::filesystem::file_size(folder.path() / "b.safetensors") - 1);
  EXPECT_THAT(problem_of(folder.path()), AllOf(HasSubstr("b.safetensors"), HasSubstr("cut short"), HasSubstr("c.safetensors"), Not(HasSubstr("is missing"))));
  test::write_bytes(folder.path() / "model.safetensors.index.json", "[]");
  EXPECT_THAT(problem_of(folder.path()), HasSubstr("not an index"));
}

TEST(HfWeights, NamesEveryUnfitTensorInOneMessage) {
  const TemporaryFolder folder;
  Tensors tensors = all_tensors();
  tensors.erase(tensors.begin() + 3);
  tensors[0].second = {4, 7};
  tensors.emplace_back("model.layers.0.mlp.experts.3.up_proj.weight", Shape{5, 4});
  tensors.emplace_back("lm_head.weight", Shape{7, 4});
  write_file(folder.path() / "model.safetensors", tensors, DType::kF32);
  EXPECT_THAT(problem_of(folder.path(), false),
              AllOf(HasSubstr("4 problems"), HasSubstr("experts.1.up_proj.weight is missing"), HasSubstr("experts.3.up_proj.weight is unknown"),
                    HasSubstr("lm_head.weight is unknown"), HasSubstr("model.embed_tokens.weight has shape [4, 7], the model needs [7, 4]")));
}

TEST(HfWeights, AcceptsATiedHeadThatIsTheEmbedding) {
  const TemporaryFolder folder;
  write_file(folder.path() / "model.safetensors", all_tensors(), DType::kBF16);
  EXPECT_EQ(problem_of(folder.path()), "");
  Tensors tensors = all_tensors();
  tensors.emplace_back("lm_head.weight", Shape{7, 4});
  for (const bool is_same : {true, false}) {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [name, shape] : tensors) entries.push_back({.name = name, .dtype = DType::kF32, .shape = shape});
    SafetensorsWriter writer(folder.path() / "model.safetensors", entries);
    for (const auto& [name, shape] : tensors)
      writer.write(values(is_same && name == "lm_head.weight" ? "model.embed_tokens.weight" : name, shape.count(), DType::kF32));
    writer.commit();
    if (is_same) EXPECT_EQ(problem_of(folder.path()), "");
    else EXPECT_THAT(problem_of(folder.path()), HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
  }
}

TEST(HfWeights, SaysWhatKindOfFolderItIsNot) {
  const TemporaryFolder folder;
  EXPECT_THAT(problem_of(folder.path() / "none"), HasSubstr("is not a folder"));
  EXPECT_THAT(problem_of(folder.path()), HasSubstr("has neither model.safetensors nor"));
  test::write_bytes(folder.path() / "pytorch_model.bin", "x");
  EXPECT_THAT(problem_of(folder.path()), HasSubstr("pytorch_model.bin is not read"));
}

TEST(HfWeights, RefusesValuesThatAreNotFinite) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path() / "model.safetensors", {{.name = "w", .dtype = DType::kF32, .shape = {2}}});
  const std::vector<float> bad{1, std::numeric_limits<float>::infinity()};
  writer.write(std::as_bytes(std::span(bad)));
  writer.commit();
  const ParamSpec spec{.name = "w", .shape = {2}};
  const HfWeights weights(folder.path(), {spec}, false);
  EXPECT_THROW(read(weights, spec, Box::whole({2}), 0, 2), CheckpointError);
}

TEST(HfWeights, RefusesIntegerWeights) {
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path() / "model.safetensors", {{.name = "w", .dtype = DType::kI32, .shape = {1}}});
  const std::int32_t one = 1;
  writer.write(std::as_bytes(std::span(&one, 1)));
  writer.commit();
  EXPECT_THROW(HfWeights(folder.path(), {{.name = "w", .shape = {1}}}, false), CheckpointError);
}

// Fills tensors with their own values.
void example_source(const ParamSpec& spec, Index entry, View out) {
  for (Index i = 0; i < out.count(); ++i) out.as<float>()[i] = value_of(spec.tensor_name(entry), i);
}

TEST(HfExport, ReadsBackInOneFileAndInParts) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Index max_bytes : {Index{1} << 30, Index{700}}) {
      const TemporaryFolder folder;
      write_hf_folder(folder.path() / "out", "{}\n", specs(), dtype, example_source, max_bytes);
      const bool is_single = max_bytes > 1000;
      EXPECT_EQ(std::filesystem::exists(folder.path() / "out" / "model.safetensors"), is_single);
      EXPECT_EQ(test::read_bytes(folder.path() / "out" / "config.json"), "{}\n");
      const HfWeights weights(folder.path() / "out", specs(), true);
      const auto all = read(weights, specs()[1], Box::whole({3, 5, 4}), 0, 60);
      for (Index i = 0; i < 60; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], value_of(specs()[1].tensor_name(i / 20), i % 20));
      if (is_single) continue;
      Index total = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "out")) {
        if (entry.path().extension() != ".safetensors") continue;
        EXPECT_LE(entry.file_size(), static_cast<std::uintmax_t>(max_bytes)) << entry.path();
        const SafetensorsFile file(entry.path());
        EXPECT_EQ(file.metadata().at("format"), "pt");
        total += file.file().size() - file.header_bytes();
      }
      const auto index = nlohmann::json::parse(test::read_bytes(folder.path() / "out" / "model.safetensors.index.json"));
      EXPECT_EQ(index["metadata"]["total_size"], total);
      EXPECT_EQ(total, (28 + 60 + 4) * dtype_bytes(dtype));
    }
  }
}

TEST(HfExport, ReplacesAnEarlierExportAndKeepsOtherFiles) {
  const TemporaryFolder folder;
  const auto out = folder.path() / "out";
  write_hf_folder(out, "{}", specs(), DType::kF32, example_source, 700);
  test::write_bytes(out / "tokenizer.json", "mine");
  write_hf_folder(out, "{}", specs(), DType::kF32, example_source);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 3);
  write_hf_folder(out, "{}", specs(), DType::kF32, example_source, 500);
  EXPECT_FALSE(std::filesystem::exists(out / "model.safetensors"));
  EXPECT_EQ(test::read_bytes(out / "tokenizer.json"), "mine");
  EXPECT_EQ(problem_of(out), "");
}

TEST(HfExport, LeavesTheEarlierExportWhenItFails) {
  const TemporaryFolder folder;
  write_hf_folder(folder.path(), "{}", specs(), DType::kF32, example_source, 700);
  const auto failing = [](const ParamSpec& spec, Index, View) {
    if (!spec.is_stacked()) return;
    throw FileError("no more");
  };
  EXPECT_THROW(write_hf_folder(folder.path(), "{}", specs(), DType::kF32, failing, 500), FileError);
  EXPECT_EQ(problem_of(folder.path()), "");
}

class ModelSourceTest : public testing::Test {
 protected:
  // A checkpoint of the specs' parameters whose master values lie 0.5 above the weights.
  void write(const std::filesystem::path& path, bool is_full_state) {
    test::ChunkSet set;
    for (const ParamSpec& spec : specs()) {
      for (const std::string prefix : {"model.", "master."}) {
        if (prefix == "master." && !is_full_state) continue;
        test::ToyTensor tensor{prefix + spec.name, DType::kF32, spec.shape, std::vector<std::byte>(static_cast<std::size_t>(spec.shape.count() * 4))};
        for (Index i = 0; i < spec.shape.count(); ++i) {
          const float value = static_cast<float>(i) + (prefix == "master." ? 0.5F : 0.0F);
          std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
        }
        set.add(tensor, Box::whole(spec.shape), 0, spec.shape.count());
      }
    }
    const auto world = make_self_communicator();
    write_checkpoint(*world, path, test::toy_info(), set.chunks);
  }
  float first_value(const ModelSource& source, WeightCopy copy) {
    float value = -1;
    open_weights(source, specs(), false, copy)(specs()[1], Box::whole({3, 5, 4}), 3, View(reinterpret_cast<std::byte*>(&value), DType::kF32, {1}));
    return value;
  }
  TemporaryFolder folder;
};

TEST_F(ModelSourceTest, OpensCheckpointsRunFoldersAndHuggingFaceFolders) {
  write(folder.path() / "run" / "checkpoints" / "slot-0", true);
  for (const auto& path : {folder.path() / "run", folder.path() / "run" / "checkpoints" / "slot-0"}) {
    const ModelSource source = find_model(path);
    EXPECT_TRUE(source.is_checkpoint);
    EXPECT_EQ(source.config_json, test::toy_info().hf_config);
    EXPECT_EQ(first_value(source, WeightCopy::kWeights), 3.0F);
    EXPECT_EQ(first_value(source, WeightCopy::kMasterIfThere), 3.5F);
  }
  write(folder.path() / "weights", false);
  EXPECT_EQ(first_value(find_model(folder.path() / "weights"), WeightCopy::kMasterIfThere), 3.0F);
  write_hf_folder(folder.path() / "hf", "{\"a\": 1}", specs(), DType::kF32, example_source);
  const ModelSource source = find_model(folder.path() / "hf");
  EXPECT_FALSE(source.is_checkpoint);
  EXPECT_EQ(source.config_json, "{\"a\": 1}");
  EXPECT_EQ(first_value(source, WeightCopy::kWeights), value_of(specs()[1].tensor_name(0), 3));
}

TEST_F(ModelSourceTest, ChecksBeforeAnythingIsRead) {
  EXPECT_THROW((void)find_model(folder.path() / "none"), CheckpointError);
  EXPECT_THROW((void)find_model(folder.path()), CheckpointError);
  write(folder.path() / "c", true);
  auto other = specs();
  other[0].shape = {8, 4};
  other.push_back({.name = "more", .shape = {1}});
  try {
    (void)open_weights(find_model(folder.path() / "c"), other, false);
    ADD_FAILURE() << "weights of another model were opened";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model.more is missing"), HasSubstr("has shape [7, 4], [8, 4] is needed")));
  }
  std::string bytes = test::read_bytes(folder.path() / "c" / "rank-00000-0.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_bytes(folder.path() / "c" / "rank-00000-0.safetensors", bytes);
  EXPECT_THROW((void)open_weights(find_model(folder.path() / "c"), specs(), false), CheckpointError);
}

}  // namespace
}  // namespace optimus
