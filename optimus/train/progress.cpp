#include "optimus/train/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "optimus/base/log.hpp"

namespace optimus {

std::string format_duration(double seconds) {
  const auto s = static_cast<Index>(std::llround(seconds));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

std::string progress_text(const StepRecord& record, Index last_step, double seconds_left) {
  const std::string rate = record.tokens_per_s >= 1e4 ? fmt::format("{:.1f}k", record.tokens_per_s / 1e3) : fmt::format("{:.0f}", record.tokens_per_s);
  std::string text = fmt::format("step {}/{}  loss {:.4f}  {} tokens/s", record.step, last_step, record.lm_loss, rate);
  if (record.mfu > 0) text += fmt::format("  MFU {:.1f} %", 100 * record.mfu);
  if (record.validation_loss) text += fmt::format("  validation loss {:.4f}", *record.validation_loss);
  if (record.skipped) text += "  skipped";
  return text + fmt::format("  ETA {}", format_duration(seconds_left));
}

TrainingProgress::TrainingProgress(Index first_step, Index last_step, Index interval, const std::filesystem::path& log_file)
    : first_step_(first_step), last_step_(last_step), interval_(interval), is_terminal_(::isatty(STDERR_FILENO) == 1), log_file_(log_file) {}

TrainingProgress::~TrainingProgress() { end_line(); }

void TrainingProgress::show(const StepRecord& record) {
  const auto done = static_cast<double>(record.step - first_step_ + 1);
  const std::string text = progress_text(record, last_step_, timer_.seconds() / done * static_cast<double>(last_step_ - record.step));
  const bool is_due = record.step % interval_ == 0 || record.step == last_step_;
  if (!is_terminal_) {
    if (is_due) log_info("{}", text);
    return;
  }
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());  // [K: what is left of a longer line before
  std::fflush(stderr);
  is_line_open_ = true;
  if (is_due) log_file_.append(text);
}

void TrainingProgress::end_line() {
  if (is_line_open_) std::fputc('\n', stderr);
  is_line_open_ = false;
}

}  // namespace optimus
