#pragma once
// What a person sees while the run goes on: one line that renews itself on a terminal, plain lines in a file.

#include <filesystem>
#include <string>

#include "optimus/base/timer.hpp"
#include "optimus/train/line_file.hpp"
#include "optimus/train/step_record.hpp"

namespace optimus {

/// "2h05m", "3m12s", "41s".
[[nodiscard]] std::string format_duration(double seconds);
/// "step 12/1000  loss 3.1234  18.2k tokens/s  MFU 23.1 %  ETA 3m12s"
[[nodiscard]] std::string progress_text(const StepRecord& record, Index last_step, double seconds_left);

/// Of one rank: standard error and the run's log.txt.
class TrainingProgress {
 public:
  /// Plain lines every `interval` steps in log.txt, and on standard error where that is no terminal.
  TrainingProgress(Index first_step, Index last_step, Index interval, const std::filesystem::path& log_file);
  ~TrainingProgress();
  TrainingProgress(const TrainingProgress&) = delete;
  TrainingProgress& operator=(const TrainingProgress&) = delete;
  void show(const StepRecord& record);
  /// Ends the renewed line, so that other output starts on one of its own.
  void end_line();

 private:
  Index first_step_, last_step_, interval_;
  bool is_terminal_, is_line_open_ = false;
  LineFile log_file_;
  Timer timer_;
};

}  // namespace optimus
