#include "optimus/train/stragglers.hpp"

#include <map>

#include "optimus/base/median.hpp"

namespace optimus {
namespace {

/// The median of each stage's ranks, or of all where a stage is one rank.
std::map<Index, double> medians(const std::vector<WorkSeconds>& seconds, const std::vector<Index>& stage, std::size_t work) {
  std::map<Index, std::vector<double>> times;
  std::vector<double> all;
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
    times[stage[rank]].push_back(seconds[rank][work]);
    all.push_back(seconds[rank][work]);
  }
  std::map<Index, double> result;
  for (auto& [of_stage, values] : times) result[of_stage] = lower_median(values.size() > 1 ? std::move(values) : all);
  return result;
}

}  // namespace

std::vector<Straggler> find_stragglers(const std::vector<WorkSeconds>& seconds, const std::vector<Index>& stage, double factor, const WorkSeconds& least_s) {
  std::vector<Straggler> found;
  for (std::size_t work = 0; work < kWorkNames.size(); ++work) {
    const auto median_of = medians(seconds, stage, work);
    for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
      const double mine = seconds[rank][work], median = median_of.at(stage[rank]);
      if (mine > factor * median && mine - median >= least_s[work])
        found.push_back({.rank = static_cast<Index>(rank), .work = static_cast<Work>(work), .seconds = mine, .median_s = median});
    }
  }
  return found;
}

std::vector<WorkSeconds> gather_work(Communicator& world, const WorkSeconds& mine) {
  std::vector<WorkSeconds> all(static_cast<std::size_t>(world.size()));
  const auto width = static_cast<Index>(mine.size());
  world.all_gather({reinterpret_cast<const std::byte*>(mine.data()), DType::kF64, {width}},
                   {reinterpret_cast<std::byte*>(all.data()), DType::kF64, {width * world.size()}});
  return all;
}

}  // namespace optimus
