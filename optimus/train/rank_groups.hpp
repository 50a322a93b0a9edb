#pragma once
// The groups of one rank along the axes of the mesh.

#include <memory>
#include <string_view>

#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/model/transformer.hpp"
#include "optimus/optim/sharded_optimizer.hpp"

namespace optimus {

/// Made once from the world. Collective: over the world.
struct RankGroups {
  /// `two_level`: as parallel.two_level, for the groups over which gradients and weights travel.
  RankGroups(Communicator& world, const Mesh& mesh, std::string_view two_level);
  [[nodiscard]] ReplicaGroups replica_groups() const;
  /// The ranks that compute each layer together with this one.
  [[nodiscard]] ModelGroups model_groups() const;

  Communicator& world;
  std::unique_ptr<Communicator> dp, ep, tp, pp, dp_ep, ep_tp, dp_ep_tp;
  std::unique_ptr<Communicator> tied;  ///< first and last pipeline stage; only on those, with more than one stage
};

}  // namespace optimus
