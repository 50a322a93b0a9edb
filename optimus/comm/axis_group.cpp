#include "optimus/comm/axis_group.hpp"

#include <fmt/format.h>

#include <vector>

#include "optimus/base/counted.hpp"

namespace optimus {

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::kDp: return "dp";
    case Axis::kEp: return "ep";
    case Axis::kTp: return "tp";
    case Axis::kPp: return "pp";
    case Axis::kDpEp: return "dp_ep";
    case Axis::kEpTp: return "ep_tp";
    case Axis::kDpEpTp: return "dp_ep_tp";
  }
  return "?";
}

std::unique_ptr<Communicator> make_axis_group(Communicator& world, const Mesh& mesh, Axis axis) {
  if (world.size() != mesh.world())
    throw ConfigError(fmt::format("[comm] the mesh was made for {}, {} were started", counted(mesh.world(), "rank"), world.size()));
  std::vector<Index> members;
  members.reserve(static_cast<std::size_t>(mesh.group_size(axis)));
  for (Index m = 0; m < mesh.group_size(axis); ++m) members.push_back(mesh.member_rank(world.rank(), axis, m));
  return world.subgroup(members, std::string(axis_name(axis)));
}

}  // namespace optimus
