#pragma once
// The three collectives that know of nodes, as works of three stages. Private to this folder.

#include <memory>
#include <vector>

#include "optimus/comm/two_level/node_map.hpp"
#include "optimus/comm/two_level/stage_queue.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus::two_level {

/// Memory for parts on their way, kept for the next work.
class Store {
 public:
  [[nodiscard]] Buffer take(Index bytes);
  void give_back(Buffer buffer) { spare_.push_back(std::move(buffer)); }

 private:
  std::vector<Buffer> spare_;
};

/// A group for each stage, so that works in different stages never meet in one.
struct Levels {
  NodeMap map;
  std::unique_ptr<Communicator> first;    ///< the node: stage 0
  std::unique_ptr<Communicator> between;  ///< this member's lane: stage 1; null without a lane
  std::unique_ptr<Communicator> last;     ///< the node: stage 2
  Store store;
};

/// Elements [begin, end) of each part of `input`, added into the same elements of `output`.
struct ReduceScatterPart {
  ConstView input;
  View output;
  Index begin = 0, end = 0;
};
/// Elements [begin, end) of `input`, put into the same elements of each part of `output`.
struct AllGatherPart {
  ConstView input;
  View output;
  Index begin = 0, end = 0;
};

[[nodiscard]] std::unique_ptr<StagedWork> make_all_reduce(Levels& levels, View data, Reduce reduce);
[[nodiscard]] std::unique_ptr<StagedWork> make_reduce_scatter(Levels& levels, const ReduceScatterPart& part);
[[nodiscard]] std::unique_ptr<StagedWork> make_all_gather(Levels& levels, const AllGatherPart& part);

}  // namespace optimus::two_level
