#pragma once
// What a run writes down, read while it goes on: how far it is, whether it is alive, what went wrong.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// One line of failures.jsonl.
struct Failure {
  Index step = 0, rank = -1;
  std::string host, kind, message;
};

/// Reads failures.jsonl from where it ended when this object was made. Lines of the supervisor itself are left out, as are lines that are not whole.
class FailureReader {
 public:
  explicit FailureReader(const std::filesystem::path& run_dir);
  /// Lines that have come since the last call.
  [[nodiscard]] std::vector<Failure> read_new();

 private:
  std::filesystem::path path_;
  std::uintmax_t offset_ = 0;
};

/// The last step in metrics.jsonl; 0 if there is none. Reads the end of the file only.
[[nodiscard]] Index last_step(const std::filesystem::path& run_dir);

/// Changes whenever the run gives a sign of life: a line in metrics.jsonl, log.txt or failures.jsonl, or something new among its checkpoints.
[[nodiscard]] std::uint64_t life_sign(const std::filesystem::path& run_dir);

/// When checkpoints/latest was published, or nothing useful (the earliest time) if there is none.
[[nodiscard]] std::filesystem::file_time_type latest_checkpoint_time(const std::filesystem::path& run_dir);

/// Kinds of lines that the supervisor adds.
inline constexpr const char* kRestartKind = "restart";
inline constexpr const char* kReplacedKind = "replaced";

/// Appends one of its own lines, with the time; `hosts`: the nodes it is about. What cannot be written is said in the log.
void append_event(const std::filesystem::path& run_dir, const Failure& event, const std::vector<std::string>& hosts) noexcept;

}  // namespace optimus::launch
