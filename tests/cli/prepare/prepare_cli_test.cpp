// prepare, tokenize and dataset as a user runs them: arguments, output, messages, exit codes.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "optimus/base/file.hpp"

namespace optimus {
namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Program : public testing::Test {
 protected:
  Program() {
    std::string name = (fs::temp_directory_path() / "optimus-cli-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~Program() override { fs::remove_all(folder_); }

  /// Runs a shell line in which `optimus` stands for the program, in the test's folder.
  Outcome sh(const std::string& line) {
    const std::string command = fmt::format("cd {} && optimus() {{ {} \"$@\"; }} && {{ {} ; }} 2> stderr.txt", folder_.string(), OPTIMUS_PROGRAM, line);
    std::FILE* pipe = popen(command.c_str(), "r");
    Outcome outcome;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) outcome.out += static_cast<char>(c);
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.err = read_file(folder_ / "stderr.txt");
    return outcome;
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  void write_corpus(const std::string& name, int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += fmt::format("{{\"text\": \"Line {} of a corpus, {} and so on.\"}}\n", i, i * 37 % 101);
    write(name, text);
  }
  std::map<std::string, std::string> files_of(const std::string& name) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / name)) {
      if (entry.is_regular_file()) files[fs::relative(entry.path(), folder_ / name).string()] = read_file(entry.path());
    }
    return files;
  }
  /// Ends with `code` and says all of `parts` on standard error.
  void expect_failure(const std::string& line, int code, const std::vector<std::string>& parts) {
    const Outcome outcome = sh(line);
    EXPECT_EQ(outcome.code, code) << line << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << line;
    for (const std::string& part : parts) EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
  }
  std::string tokenizer_ = std::string(OPTIMUS_SOURCE_DIR) + "/tests/data/tokenizers/small_2k.json";
  fs::path folder_;
};

TEST_F(Program, PreparesInspectsAndVerifies) {
  write_corpus("corpus.jsonl", 200);
  const Outcome made = sh("optimus prepare --out data --tokenizer bytes --sequence-length 64 corpus.jsonl");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("in 1 shard; 200 documents"), std::string::npos) << made.out;
  EXPECT_NE(made.err.find("1 input file in 1 part, 1 to do"), std::string::npos) << made.err;
  const json info = json::parse(sh("optimus dataset inspect data --json --samples 2").out);
  EXPECT_EQ(info.at("vocab_size"), 257);
  EXPECT_EQ(info.at("documents"), 200);
  ASSERT_EQ(info.at("first_samples").size(), 2U);
  EXPECT_EQ(info.at("first_samples")[1].at("ids").size(), 65U);
  EXPECT_NE(info.at("first_samples")[1].at("text").get<std::string>().find("of a corpus"), std::string::npos);
  EXPECT_NE(sh("optimus dataset inspect data").out.find("sequence length    64"), std::string::npos);
  EXPECT_EQ(sh("optimus dataset verify data").code, 0);
  const Outcome again = sh("optimus prepare --out data --tokenizer bytes --sequence-length 64 corpus.jsonl");
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.err.find("finished already"), std::string::npos) << again.err;
}

TEST_F(Program, PreparesTheSameBytesOnTwoRanks) {
  for (int i = 0; i < 5; ++i) write_corpus(fmt::format("in/{}.jsonl", i), 100 + i);
  const std::string options = fmt::format("--tokenizer {} --sequence-length 32 --shard-tokens 1000 in", tokenizer_);
  ASSERT_EQ(sh("optimus prepare --workers 1 --out one " + options).code, 0);
  const Outcome two = sh(fmt::format("{} -n 2 {} prepare --workers 2 --out two {}", OPTIMUS_MPIEXEC, OPTIMUS_PROGRAM, options));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(files_of("one"), files_of("two"));
  EXPECT_GT(files_of("one").size(), 4U);
  write("in/3.jsonl", "{\"text\": \"ok\"}\nbroken\n");
  expect_failure(fmt::format("{} -n 2 {} prepare --out three {}", OPTIMUS_MPIEXEC, OPTIMUS_PROGRAM, options), 3, {"in/3.jsonl:2", "broken JSON"});
}

TEST_F(Program, TokenizesAndDecodes) {
  const std::string text = R"({"text": "First Citizen: <|endoftext|> caf\u00e9"})";
  const Outcome ids = sh(fmt::format("echo '{}' | optimus tokenize --tokenizer {}", text, tokenizer_));
  ASSERT_EQ(ids.code, 0) << ids.err;
  write("ids.jsonl", "\n" + ids.out);
  const Outcome back = sh(fmt::format("optimus tokenize --decode --tokenizer {} ids.jsonl", tokenizer_));
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(json::parse(back.out), json::parse(text));
  write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 5}\n");
  EXPECT_EQ(sh("optimus tokenize --tokenizer bytes bad.jsonl").code, 3);
  EXPECT_NE(sh("optimus tokenize --tokenizer bytes bad.jsonl").err.find("bad.jsonl:2"), std::string::npos);
  expect_failure("printf '{\"ids\": [1, \"x\"]}' | optimus tokenize --decode --tokenizer bytes", 3, {"standard input:1"});
  expect_failure("optimus tokenize --tokenizer bytes nope.jsonl", 3, {"nope.jsonl"});
  EXPECT_EQ(sh("echo '{\"text\": \"a\"}' | optimus tokenize --tokenizer bytes > /dev/full").code, 1);
}

TEST_F(Program, SaysWhatIsWrongAndEndsWithItsCode) {
  write_corpus("c.jsonl", 50);
  write("broken.json", "{\"model\": ");
  expect_failure("optimus prepare --out d --tokenizer bytes c.jsonl", 2, {"--sequence-length"});
  expect_failure("optimus prepare --out d --tokenizer bytes --sequence-length 8 --sed 3 c.jsonl", 2, {"--sed"});
  expect_failure("optimus prepare --out d --tokenizer bytes --sequence-length 0 c.jsonl", 2, {"--sequence-length"});
  expect_failure("optimus prepare --out d --tokenizer bytes --sequence-length eight c.jsonl", 2, {"eight"});
  expect_failure("optimus prepare --out d --tokenizer bytes --sequence-length 8 nope.jsonl", 3, {"nope.jsonl"});
  expect_failure("optimus prepare --out d --tokenizer broken.json --sequence-length 8 c.jsonl", 3, {"broken.json", "not JSON"});
  expect_failure("optimus prepare --out d --tokenizer none --sequence-length 8 c.jsonl", 3, {"c.jsonl:1", "tokens"});
  expect_failure("optimus prepare --out c.jsonl/d --tokenizer bytes --sequence-length 8 c.jsonl", 1, {"c.jsonl"});
  expect_failure("optimus dataset verify nope", 3, {"nope"});
  expect_failure("optimus dataset", 2, {});
  ASSERT_EQ(sh("optimus prepare --out ok --tokenizer bytes --sequence-length 8 c.jsonl").code, 0);
  expect_failure("optimus prepare --out ok --tokenizer bytes --sequence-length 9 c.jsonl", 2, {"sequence length: 8 there, 9 now"});
  ASSERT_EQ(sh("printf x | dd of=ok/shards/shard-00000.npy bs=1 seek=200 conv=notrunc").code, 0);
  expect_failure("optimus dataset verify ok", 3, {"shard-00000.npy", "checksum"});
}

TEST_F(Program, HelpsWithExamples) {
  for (const char* command : {"prepare", "tokenize", "dataset", "dataset inspect", "dataset verify"}) {
    const Outcome help = sh(fmt::format("optimus {} --help", command));
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("Examples:\n  "), std::string::npos) << command << help.out;
  }
}

#ifdef OPTIMUS_CAN_MOUNT
TEST_F(Program, LosesNothingOnAFullDisk) {
  write_corpus("c.jsonl", 60000);
  const std::string command = "optimus prepare --workers 2 --tokenizer bytes --sequence-length 64 --shard-tokens 200000 c.jsonl --out ";
  ASSERT_EQ(sh(command + "whole").code, 0);
  // From here on this process has mounts of its own, which end with it.
  const fs::path disk = folder_ / "disk";
  fs::create_directory(disk);
  ASSERT_EQ(unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER), 0);
  ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(mount("none", disk.c_str(), "tmpfs", 0, "size=1m"), 0);
  expect_failure(command + "disk/out", 1, {"No space left on device"});  // while the ids are made
  ASSERT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=8m"), 0);
  expect_failure(command + "disk/out", 1, {"No space left on device"});  // while the shards are written
  EXPECT_FALSE(fs::exists(disk / "out" / "dataset.json"));
  EXPECT_TRUE(fs::exists(disk / "out" / "work" / "part-00000.tokens"));
  expect_failure("optimus dataset verify disk/out", 3, {"unfinished"});
  ASSERT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const Outcome done = sh(command + "disk/out");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(files_of("disk/out"), files_of("whole"));
  umount(disk.c_str());
}
#endif

}  // namespace
}  // namespace optimus
