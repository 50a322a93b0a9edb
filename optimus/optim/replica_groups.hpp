#pragma once
// The groups that hold copies of parameters, as a rank of the mesh sees them.

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// Groups a rank reduces over, one per replica axis; null where the layout has no use for one.
///
/// From the first gradients_complete() of a step to the end of its reduce_gradients() nobody else may call collectives in them: when a transfer starts
/// depends on when others have ended.
struct ReplicaGroups {
  Communicator* dp = nullptr;        ///< expert parameters
  Communicator* dp_ep = nullptr;     ///< parameters cut over TP
  Communicator* world = nullptr;     ///< for the norm and for agreement
  Communicator* ep = nullptr;        ///< for "so" with ep > 1: the shards over DP are then summed over EP
  Communicator* dp_ep_tp = nullptr;  ///< parameters that every TP rank has whole; used with tp > 1
  Communicator* ep_tp = nullptr;     ///< for "so" with tp > 1, as ep; and where TP ranks share heads
  Communicator* tied = nullptr;  ///< this rank's counterparts on the first and the last pipeline stage, in this order; used where both hold a tied embedding
};

}  // namespace optimus
