#include "optimus/train/run_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"
#include "optimus/train/loss_picture.hpp"

namespace optimus {
namespace {

constexpr std::size_t kMostWaitingBytes = std::size_t{64} << 20;

std::vector<Scalar> scalars_of(const StepRecord& r) {
  std::vector<Scalar> scalars = {{"loss/lm", r.lm_loss},
                                 {"loss/aux", r.aux_loss},
                                 {"loss/z", r.z_loss},
                                 {"optimizer/lr", r.lr},
                                 {"optimizer/grad_norm", r.grad_norm},
                                 {"optimizer/clip_coefficient", r.clip_coefficient},
                                 {"speed/tokens_per_s", r.tokens_per_s},
                                 {"speed/flops_per_s", r.flops_per_s},
                                 {"speed/mfu", r.mfu}};
  if (r.validation_loss) scalars.emplace_back("loss/validation", *r.validation_loss);
  if (!r.expert_load_max.empty()) {
    scalars.emplace_back("moe/expert_load_max", *std::max_element(r.expert_load_max.begin(), r.expert_load_max.end()));
    scalars.emplace_back("moe/expert_load_min", *std::min_element(r.expert_load_min.begin(), r.expert_load_min.end()));
  }
  return scalars;
}

}  // namespace

RunLog::RunLog(const RunConfig& config, const std::string& dump, Index done, Index last_step)
    : config_(config),
      metrics_path_((std::filesystem::path(config.run.dir) / "metrics.jsonl").string()),
      progress_(done + 1, last_step, config.log.interval, std::filesystem::path(config.run.dir) / "log.txt") {
  const std::filesystem::path run_dir = config.run.dir;
  write_file_atomically(run_dir / "run.toml", dump);
  if (done == 0) set_metrics_aside(run_dir);
  const Index left = keep_steps(metrics_path_, done);
  if (left < done) log_warning("[log] {} ends at step {}, the checkpoint at step {}: the lines between are lost", metrics_path_, left, done);
  metrics_ = std::make_unique<LineFile>(metrics_path_);
  if (config.log.tensorboard) events_ = std::make_unique<EventFile>(run_dir, done + 1);
}

/// A run that starts anew in a folder with another one's lines, because its checkpoints are gone or are not wanted any more.
void RunLog::set_metrics_aside(const std::filesystem::path& run_dir) const {
  const std::filesystem::path aside = run_dir / "metrics.replaced.jsonl";
  if (const Index lines = set_lines_aside(metrics_path_, aside))
    log_warning("[log] this run starts at step 1; {} of {} are now in {}", counted(lines, "line"), metrics_path_, aside.string());
}

template <class Action> void RunLog::try_write(Index step, Action action) {
  try {
    action();
    if (is_behind_) log_warning("[log] step {}: the files of {} can be written again", step, config_.run.dir);
    is_behind_ = false;
  } catch (const FileError& error) {
    if (!config_.checkpoint.keep_going_on_write_error || metrics_->waiting_bytes() > kMostWaitingBytes) throw;
    if (!is_behind_) log_warning("[log] step {}: {}; the run goes on, lines wait in memory", step, error.what());
    is_behind_ = true;
  }
}

void RunLog::add(const StepRecord& record) {
  try_write(record.step, [&] {
    metrics_->append(record.json());
    if (events_ && record.step % config_.log.interval == 0) events_->add(record.step, scalars_of(record));
    progress_.show(record);
  });
}

void RunLog::end() {
  metrics_->flush();
  progress_.end_line();
  if (::isatty(STDERR_FILENO) == 1) std::fputs(draw_curve(read_losses(metrics_path_)).c_str(), stderr);
  log_info("metrics, checkpoints and log are in {}", config_.run.dir);
}

}  // namespace optimus
