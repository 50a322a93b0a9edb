#include "optimus/train/straggler_watch.hpp"

#include <algorithm>

#include "optimus/base/log.hpp"
#include "optimus/train/failure_log.hpp"

namespace optimus {
namespace {

/// Ranks differ by some milliseconds in what they save, and the first one does for all what only one can do.
constexpr double kLeastSaving_s = 1;

}  // namespace

StragglerWatch::StragglerWatch(Communicator& world, const Mesh& mesh, const LogConfig& config)
    : world_(world), factor_(config.straggler_factor), interval_(config.interval), hosts_(all_gather_text(world, host_name())) {
  for (Index rank = 0; rank < world.size(); ++rank) stage_.push_back(mesh.member_index(rank, Axis::kPp));
}

std::vector<SlowRank> StragglerWatch::end_step(Index step, double step_s) {
  steps_s_ += step_s;
  ++num_steps_;
  if (factor_ <= 0 || world_.size() == 1 || step % interval_ != 0) return {};
  const auto steps = static_cast<double>(num_steps_);
  for (double& sum : sums_) sum /= steps;
  // One measure for all: each rank's own clock would let them decide differently.
  WorkSeconds mine = sums_;
  const auto all = gather_work(world_, mine);
  std::vector<SlowRank> slow;
  double mean_step_s = steps_s_ / steps;
  world_.all_reduce({reinterpret_cast<std::byte*>(&mean_step_s), DType::kF64, {1}}, Reduce::kMax);
  WorkSeconds least_s;
  least_s.fill(std::max(0.01, 0.1 * mean_step_s));
  double& least_save_s = least_s[static_cast<std::size_t>(Work::kCheckpoint)];
  least_save_s = std::max(least_save_s, kLeastSaving_s / steps);
  for (const Straggler& s : find_stragglers(all, stage_, factor_, least_s)) {
    slow.push_back({.rank = s.rank,
                    .host = hosts_[static_cast<std::size_t>(s.rank)],
                    .phase = std::string(kWorkNames[static_cast<std::size_t>(s.work)]),
                    .seconds = s.seconds,
                    .median_s = s.median_s});
    if (world_.rank() == 0)
      log_warning("[stragglers] rank {} on {} is slow in {}: {:.3g} s a step where others need {:.3g} s", s.rank, slow.back().host, slow.back().phase,
                  s.seconds, s.median_s);
  }
  sums_ = {};
  steps_s_ = 0;
  num_steps_ = 0;
  return slow;
}

}  // namespace optimus
