#pragma once
// What rank 0 writes about a run: run.toml, metrics.jsonl, TensorBoard events, the progress line.

#include <memory>
#include <string>

#include "optimus/train/line_file.hpp"
#include "optimus/train/progress.hpp"
#include "optimus/train/run_config.hpp"
#include "optimus/train/step_record.hpp"
#include "optimus/train/tensorboard.hpp"

namespace optimus {

class RunLog {
 public:
  /// Continues the run folder's files after step `done`.  Errors: FileError.
  RunLog(const RunConfig& config, const std::string& dump, Index done, Index last_step);
  /// The line is in the file when it returns, or, where `checkpoint.keep_going_on_write_error` lets it, waits for room on the disk.  Errors: FileError.
  void add(const StepRecord& record);
  /// After the last step: the picture of the losses, on a terminal.  Errors: FileError if lines still wait.
  void end();

 private:
  void set_metrics_aside(const std::filesystem::path& run_dir) const;
  template <class Action> void try_write(Index step, Action action);

  const RunConfig& config_;
  std::string metrics_path_;
  std::unique_ptr<LineFile> metrics_;
  std::unique_ptr<EventFile> events_;
  TrainingProgress progress_;
  bool is_behind_ = false;  ///< the last lines did not reach their files
};

}  // namespace optimus
