#pragma once
// The end that a batch system has set for the job.

#include <chrono>
#include <optional>
#include <string_view>

namespace optimus {

/// Seconds, or hours:minutes:seconds as batch systems write them; nothing if it is neither, or longer than three centuries.
[[nodiscard]] std::optional<double> parse_seconds(std::string_view text);

/// When this job ends: SLURM_JOB_END_TIME (seconds since 1970), or PBS_WALLTIME (as parse_seconds reads it) from now on; nothing if neither is set to a time.
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> job_end();

/// Watches the clock.
class StopConditions {
 public:
  /// `margin_s` before the end of the job counts as time up; 0: never.
  explicit StopConditions(double margin_s);
  [[nodiscard]] bool is_time_up() const { return deadline_ && std::chrono::system_clock::now() >= *deadline_; }

 private:
  std::optional<std::chrono::system_clock::time_point> deadline_;
};

}  // namespace optimus
