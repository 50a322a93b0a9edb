#include "optimus/train/stop_conditions.hpp"

#include <charconv>
#include <cstdlib>

#include "optimus/base/log.hpp"

namespace optimus {
namespace {

std::optional<double> seconds_in(const char* variable) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets it while we run
  if (text == nullptr || *text == '\0') return std::nullopt;
  const auto seconds = parse_seconds(text);
  if (!seconds) log_warning("[fault_tolerance] {}=\"{}\" is no time and is not used; write seconds, or hours:minutes:seconds", variable, text);
  return seconds;
}

}  // namespace

std::optional<double> parse_seconds(std::string_view text) {
  constexpr double kMost = 1e10;  // three centuries, and still no overflow
  constexpr int kParts = 3;
  double total = 0;
  for (int part = 0; part < kParts; ++part) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    // Not "-5", and neither "nan" nor "inf", which are numbers too.
    if (code != std::errc() || !(value >= 0 && value <= kMost)) return std::nullopt;
    total = 60 * total + value;
    if (end == text.data() + text.size()) return total <= kMost ? std::optional(total) : std::nullopt;
    if (*end != ':') return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  }
  return std::nullopt;
}

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
  else log_warning("[fault_tolerance] stop_before_walltime_s has no effect: neither SLURM_JOB_END_TIME nor PBS_WALLTIME gives a time");
}

}  // namespace optimus
