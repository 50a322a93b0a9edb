#include "optimus/train/stop_conditions.hpp"

#include <cstdlib>

#include "optimus/base/log.hpp"

namespace optimus {
namespace {

std::optional<double> seconds_in(const char* variable) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it while we run
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  return end != text ? std::optional(seconds) : std::nullopt;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> job_end() {
  using Clock = std::chrono::system_clock;
  const auto after = [](Clock::time_point start, double seconds) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  if (const auto end = seconds_in("SLURM_JOB_END_TIME")) return after(Clock::time_point{}, *end);
  if (const auto length = seconds_in("PBS_WALLTIME")) return after(Clock::now(), *length);
  return std::nullopt;
}

StopConditions::StopConditions(double margin_s) {
  if (margin_s <= 0) return;
  if (const auto end = job_end()) deadline_ = *end - std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::duration<double>(margin_s));
  else log_warning("[fault_tolerance] stop_before_walltime_s has no effect: neither SLURM_JOB_END_TIME nor PBS_WALLTIME is set");
}

}  // namespace optimus
