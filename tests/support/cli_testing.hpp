#pragma once
// The program as a user runs it, and its files as a user's script reads them.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace optimus::test {

struct ProgramResult {
  int code = 0;  ///< exit code; 128 + signal if one ended it
  std::string out, err;
};

/// Runs `optimus ARGS`, each argument as it is. `ranks` > 0: under an MPI starter. `prefix`: shell words before it ("timeout 5", "FOO=1").
[[nodiscard]] ProgramResult run_optimus(const std::vector<std::string>& args, int ranks = 0, const std::string& prefix = "");

/// A shell command that does the same, for tests that start it in the background.
[[nodiscard]] std::string optimus_command(const std::vector<std::string>& args, int ranks = 0);

/// One rank of a run whose ranks are started differently.
struct RankStart {
  std::vector<std::string> args;
  std::filesystem::path program;  ///< empty: optimus
};
[[nodiscard]] ProgramResult run_optimus_ranks(const std::vector<RankStart>& ranks);
/// The program that run_optimus() runs.
[[nodiscard]] std::filesystem::path optimus_program();

/// To be called first: fresh_folder() is in memory where there is such a place. For tests that save at every step and wait with limits: it is not the disk that
/// they try, and beside other work that takes seconds.
void use_memory_for_files();
/// An empty folder of this test alone.
[[nodiscard]] std::filesystem::path fresh_folder(const std::string& name = "work");

/// Prepares `ids` with `optimus prepare --tokenizer none`; returns the prepared folder.
[[nodiscard]] std::filesystem::path prepare_ids(const std::filesystem::path& folder, const std::vector<int>& ids, int sequence_length,
                                                const std::vector<std::string>& options = {});
/// `count` ids below `vocab`, always the same.
[[nodiscard]] std::vector<int> some_ids(int count, int vocab);

/// A model of two layers and four experts over 61 ids, in fp32, with sequences of 16; the rest by override.
[[nodiscard]] std::filesystem::path write_toy_config(const std::filesystem::path& folder, const std::filesystem::path& data);

/// Lines of metrics.jsonl.
[[nodiscard]] std::vector<nlohmann::json> read_metrics(const std::filesystem::path& run_dir);
/// Without what depends on the clock: equal text for equal runs.
[[nodiscard]] std::string metrics_without_times(const std::filesystem::path& run_dir);

/// Tensors of a safetensors file, f32 ones as numbers.
[[nodiscard]] std::map<std::string, std::vector<float>> read_tensors(const std::filesystem::path& path);
/// `optimus checkpoint consolidate` of the run's newest checkpoint: the file's bytes.
[[nodiscard]] std::string consolidated(const std::filesystem::path& run_dir);

/// Largest |a - b| over the largest |b|, of every tensor; prints the worst element if it is above `bound`.
void expect_close(const std::map<std::string, std::vector<float>>& actual, const std::map<std::string, std::vector<float>>& expected, double bound);

}  // namespace optimus::test
