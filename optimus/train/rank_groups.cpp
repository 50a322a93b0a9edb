#include "optimus/train/rank_groups.hpp"

#include <array>

#include "optimus/comm/axis_group.hpp"
#include "optimus/comm/two_level/two_level.hpp"

namespace optimus {
namespace {

std::unique_ptr<Communicator> ends_of_pipeline(Communicator& world, const Mesh& mesh) {
  const Index stage = mesh.member_index(world.rank(), Axis::kPp), last = mesh.pp() - 1;
  if (last == 0 || (stage != 0 && stage != last)) return nullptr;
  const std::array members = {mesh.member_rank(world.rank(), Axis::kPp, 0), mesh.member_rank(world.rank(), Axis::kPp, last)};
  return world.subgroup(members, "tied");
}

}  // namespace

RankGroups::RankGroups(Communicator& w, const Mesh& mesh, std::string_view two_level)
    : world(w),
      dp(make_reduction_group(w, mesh, Axis::kDp, two_level)),
      ep(make_axis_group(w, mesh, Axis::kEp)),
      tp(make_axis_group(w, mesh, Axis::kTp)),
      pp(make_axis_group(w, mesh, Axis::kPp)),
      dp_ep(make_reduction_group(w, mesh, Axis::kDpEp, two_level)),
      ep_tp(make_axis_group(w, mesh, Axis::kEpTp)),
      dp_ep_tp(make_reduction_group(w, mesh, Axis::kDpEpTp, two_level)),
      tied(ends_of_pipeline(w, mesh)) {}

ReplicaGroups RankGroups::replica_groups() const {
  return {.dp = dp.get(), .dp_ep = dp_ep.get(), .world = &world, .ep = ep.get(), .dp_ep_tp = dp_ep_tp.get(), .ep_tp = ep_tp.get(), .tied = tied.get()};
}

ModelGroups RankGroups::model_groups() const { return {.tp = tp->size() > 1 ? tp.get() : nullptr, .ep = ep->size() > 1 ? ep.get() : nullptr}; }

}  // namespace optimus
