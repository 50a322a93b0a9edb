#include "tests/support/cli_testing.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/safetensors.hpp"

namespace optimus::test {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// All files of this process, gone when it ends: several builds may run the same test at the same time.
struct Root {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("optimus_test_" + std::to_string(::getpid()));
  Root() = default;
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

const std::filesystem::path& root() {
  static const Root root;
  return root.path;
}

ProgramResult run_shell(const std::string& command) {
  std::filesystem::create_directories(root());
  const std::string out = (root() / "out").string(), err = (root() / "err").string();
  const int status = std::system((command + " >" + out + " 2>" + err + " </dev/null").c_str());
  ProgramResult result{.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .out = text_of(out), .err = text_of(err)};
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return result;
}

}  // namespace

std::string optimus_command(const std::vector<std::string>& args, int ranks) {
  std::string command = ranks > 0 ? std::string(OPTIMUS_MPIEXEC) + " -n " + std::to_string(ranks) + " " : "";
  command += OPTIMUS_PROGRAM;
  for (const std::string& arg : args) command.append(" ").append(quoted(arg));
  return command;
}

std::filesystem::path optimus_program() { return OPTIMUS_PROGRAM; }

ProgramResult run_optimus(const std::vector<std::string>& args, int ranks, const std::string& prefix) {
  // One thread: tests run beside each other.
  return run_shell("OMP_NUM_THREADS=1 " + prefix + " " + optimus_command(args, ranks));
}

ProgramResult run_optimus_ranks(const std::vector<RankStart>& ranks) {
  std::string command = "OMP_NUM_THREADS=1 " OPTIMUS_MPIEXEC;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    command += (r == 0 ? " -n 1 " : " : -n 1 ") + quoted(ranks[r].program.empty() ? OPTIMUS_PROGRAM : ranks[r].program.string());
    for (const std::string& arg : ranks[r].args) command.append(" ").append(quoted(arg));
  }
  return run_shell(command);
}

void use_memory_for_files() {
  if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);
}

std::filesystem::path fresh_folder(const std::string& name) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string test = std::string(info->test_suite_name()) + "." + info->name();
  for (char& c : test) c = c == '/' ? '_' : c;
  const auto folder = root() / test / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::vector<int> some_ids(int count, int vocab) {
  std::vector<int> ids;
  unsigned state = 12345;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    ids.push_back(static_cast<int>((state >> 10) % static_cast<unsigned>(vocab)));
  }
  return ids;
}

std::filesystem::path prepare_ids(const std::filesystem::path& folder, const std::vector<int>& ids, int sequence_length,
                                  const std::vector<std::string>& options) {
  const auto input = folder / "ids.jsonl", out = folder / "data";
  std::ofstream(input) << nlohmann::json{{"tokens", ids}} << "\n";
  std::vector<std::string> args = {"prepare", "--out", out.string(), "--tokenizer", "none", "--sequence-length", std::to_string(sequence_length)};
  args.insert(args.end(), options.begin(), options.end());
  args.push_back(input.string());
  const ProgramResult result = run_optimus(args);
  EXPECT_EQ(result.code, 0) << result.err;
  return out;
}

std::filesystem::path write_toy_config(const std::filesystem::path& folder, const std::filesystem::path& data) {
  const auto path = folder / "toy.toml";
  std::ofstream(path) << "[run]\ndir = \"" << (folder / "run").string() << "\"\nsteps = 6\n"
                      << "[model]\nnum_hidden_layers = 2\nhidden_size = 32\nnum_attention_heads = 4\nintermediate_size = 24\nnum_experts = "
                         "4\nnum_experts_per_tok = 2\nvocab_size = 61\n"
                      << "[data]\npath = \"" << data.string() << "\"\nsequence_length = 16\n"
                      << "[batch]\nglobal_batch = 8\n[optimizer]\nlr = 1e-2\nwarmup_steps = 2\n[precision]\nweights = \"fp32\"\n[checkpoint]\ninterval = 0\n";
  return path;
}

std::vector<nlohmann::json> read_metrics(const std::filesystem::path& run_dir) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(run_dir / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string metrics_without_times(const std::filesystem::path& run_dir) {
  std::string text;
  for (nlohmann::json& line : read_metrics(run_dir)) {
    for (const char* key : {"tokens_per_s", "flops_per_s", "mfu", "step_s", "phase_s", "stragglers"}) line.erase(key);
    text += line.dump() + "\n";
  }
  return text;
}

std::map<std::string, std::vector<float>> read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, std::vector<float>> tensors;
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.dtype != DType::kF32) continue;
    std::vector<float> values(static_cast<std::size_t>(entry.shape.count()));
    file.read(entry, View(reinterpret_cast<std::byte*>(values.data()), DType::kF32, entry.shape));
    tensors[entry.name] = std::move(values);
  }
  return tensors;
}

std::string consolidated(const std::filesystem::path& run_dir) {
  std::string latest = text_of(run_dir / "checkpoints" / "latest");
  while (!latest.empty() && latest.back() == '\n') latest.pop_back();
  const auto out = run_dir / "consolidated.safetensors";
  const ProgramResult result = run_optimus({"checkpoint", "consolidate", (run_dir / "checkpoints" / latest).string(), "--out", out.string()});
  EXPECT_EQ(result.code, 0) << result.err;
  return text_of(out);
}

void expect_close(const std::map<std::string, std::vector<float>>& actual, const std::map<std::string, std::vector<float>>& expected, double bound) {
  ASSERT_FALSE(expected.empty());
  for (const auto& [name, wanted] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name << " is missing";
    const auto& got = actual.at(name);
    ASSERT_EQ(got.size(), wanted.size()) << name;
    double largest = 0, worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
      const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i]));
      if (!(difference <= worst)) {
        worst = difference;
        at = i;
      }
    }
    EXPECT_LE(worst, bound * largest) << name << "[" << at << "]: " << got[at] << " instead of " << wanted[at];
  }
}

}  // namespace optimus::test
