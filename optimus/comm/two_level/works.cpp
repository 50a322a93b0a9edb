#include "optimus/comm/two_level/works.hpp"

#include <algorithm>
#include <cstring>

namespace optimus::two_level {
namespace {

void move_bytes(const std::byte* from, std::byte* to, Index bytes) {
  if (bytes > 0 && from != to) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

/// Elements of each member of the node, if those with a lane have `counts` of them.
template <class Count> std::vector<Index> counts_of_node(const NodeMap& map, Count count_of_lane) {
  std::vector<Index> counts(static_cast<std::size_t>(map.node_size()), 0);
  for (Index lane = 0; lane < map.num_lanes(); ++lane) counts[static_cast<std::size_t>(lane)] = count_of_lane(lane);
  return counts;
}

/// Each lane adds its share of the data; sums of a node first.
class AllReduce final : public StagedWork {
 public:
  AllReduce(Levels& levels, View data, Reduce reduce)
      : levels_(levels), data_(data.count() > 0 ? View(data.data(), data.dtype(), {data.count()}) : data), reduce_(reduce) {
    // Whole cache lines, so that a share does not begin in the middle of one.
    constexpr Index kLineElements = 64;
    const Index count = data.count(), length = round_up(ceil_div(count, levels.map.num_lanes()), kLineElements);
    const auto begin = [&](Index lane) { return std::min(count, lane * length); };
    counts_ = counts_of_node(levels.map, [&](Index lane) { return lane == levels.map.num_lanes() - 1 ? count - begin(lane) : begin(lane + 1) - begin(lane); });
    const Index mine = counts_[static_cast<std::size_t>(levels.map.place())], first = levels.map.has_lane() ? begin(levels.map.place()) : count;
    share_ = View(data.data() + first * dtype_bytes(data.dtype()), data.dtype(), {mine});
  }
  void start(int stage, Requests& requests) override {
    if (stage == 0) requests.push_back(levels_.first->start_reduce_scatter_v(data_, share_, counts_, reduce_));
    if (stage == 1 && levels_.between) requests.push_back(levels_.between->start_all_reduce(share_, reduce_));
    if (stage == 2) requests.push_back(levels_.last->start_all_gather_v(share_, data_, counts_));
  }

 private:
  Levels& levels_;
  View data_, share_;
  Reduce reduce_;
  std::vector<Index> counts_;
};

/// Parts of all members in packed order, and the ways along which they travel.
class PackedWork : public StagedWork {
 public:
  PackedWork(Levels& levels, DType dtype, Index length)
      : levels_(levels), map_(levels.map), dtype_(dtype), length_(length), part_bytes_(length * dtype_bytes(dtype)) {}
  ~PackedWork() override {
    if (buffer_.data() != nullptr) levels_.store.give_back(std::move(buffer_));
  }

 protected:
  void take_memory() { buffer_ = levels_.store.take(static_cast<Index>(map_.packed().size()) * part_bytes_); }

  [[nodiscard]] std::byte* part(Index k) const { return buffer_.data() + k * part_bytes_; }
  [[nodiscard]] View parts(Index begin, Index end) const { return {part(begin), dtype_, {(end - begin) * length_}}; }
  [[nodiscard]] View all_parts() const { return parts(0, static_cast<Index>(map_.packed().size())); }
  [[nodiscard]] View lane_parts() const { return parts(map_.lane_begin(map_.place()), map_.lane_begin(map_.place() + 1)); }
  /// Index of the first part that this member's lane brings to its node; the others follow, by place.
  [[nodiscard]] Index first_here() const {
    Index begin = map_.lane_begin(map_.place());
    for (Index node = 0; node < map_.node(); ++node) begin += map_.lane_count(map_.place(), node);
    return begin;
  }
  [[nodiscard]] Index num_here() const { return map_.lane_count(map_.place(), map_.node()); }
  [[nodiscard]] View parts_here() const { return parts(first_here(), first_here() + num_here()); }
  [[nodiscard]] View part_here(Index i) const { return parts(first_here() + i, first_here() + i + 1); }
  /// The member of the node that part_here(i) is of.
  [[nodiscard]] Index place_of(Index i) const { return map_.place() + i * map_.num_lanes(); }

  [[nodiscard]] std::vector<Index> node_counts() const {
    return counts_of_node(map_, [this](Index lane) { return (map_.lane_begin(lane + 1) - map_.lane_begin(lane)) * length_; });
  }
  [[nodiscard]] std::vector<Index> lane_counts() const {
    std::vector<Index> counts;
    for (Index node = 0; node < map_.num_nodes(); ++node) counts.push_back(map_.lane_count(map_.place(), node) * length_);
    return counts;
  }

  Levels& levels_;
  const NodeMap& map_;
  DType dtype_;
  Index length_, part_bytes_;
  Buffer buffer_;
};

/// Sums of the node for each lane; sums of the lane for each node; to those whose part came in another member's lane.
class ReduceScatter final : public PackedWork {
 public:
  ReduceScatter(Levels& levels, const ReduceScatterPart& p) : PackedWork(levels, p.input.dtype(), p.end - p.begin), part_(p) {}
  void start(int stage, Requests& requests) override {
    if (stage == 0) {
      pack();
      const View mine = map_.has_lane() ? lane_parts() : View(part(0), dtype_, {0});
      requests.push_back(levels_.first->start_reduce_scatter_v(all_parts(), mine, node_counts(), Reduce::kSum));
    } else if (stage == 1 && map_.has_lane()) {
      requests.push_back(levels_.between->start_reduce_scatter_v(lane_parts(), parts_here(), lane_counts(), Reduce::kSum));
    } else if (stage == 2 && map_.has_lane()) {
      move_bytes(part_here(0).data(), output().data(), part_bytes_);
      for (Index i = 1; i < num_here(); ++i) requests.push_back(levels_.last->start_send(part_here(i), place_of(i), 0));
    } else if (stage == 2) {
      requests.push_back(levels_.last->start_receive(output(), map_.place() % map_.num_lanes(), 0));
    }
  }

 private:
  void pack() {
    take_memory();
    const Index bytes = part_.output.bytes(), begin = part_.begin * dtype_bytes(dtype_);
    for (std::size_t k = 0; k < map_.packed().size(); ++k)
      move_bytes(part_.input.data() + map_.packed()[k] * bytes + begin, part(static_cast<Index>(k)), part_bytes_);
  }
  [[nodiscard]] View output() const { return {part_.output.data() + part_.begin * dtype_bytes(dtype_), dtype_, {length_}}; }
  ReduceScatterPart part_;
};

/// The same backwards: to the member with the lane; along the lane; to all of the node.
class AllGather final : public PackedWork {
 public:
  AllGather(Levels& levels, const AllGatherPart& p) : PackedWork(levels, p.input.dtype(), p.end - p.begin), part_(p) {}
  void start(int stage, Requests& requests) override {
    if (stage == 0) take_memory();
    if (stage == 0 && map_.has_lane()) {
      move_bytes(input().data(), part_here(0).data(), part_bytes_);
      for (Index i = 1; i < num_here(); ++i) requests.push_back(levels_.first->start_receive(part_here(i), place_of(i), 0));
    } else if (stage == 0) {
      requests.push_back(levels_.first->start_send(input(), map_.place() % map_.num_lanes(), 0));
    } else if (stage == 1 && map_.has_lane()) {
      requests.push_back(levels_.between->start_all_gather_v(parts_here(), lane_parts(), lane_counts()));
    } else if (stage == 2) {
      const View mine = map_.has_lane() ? lane_parts() : View(part(0), dtype_, {0});
      requests.push_back(levels_.last->start_all_gather_v(mine, all_parts(), node_counts()));
    }
  }
  void finish() override {
    const Index bytes = part_.input.bytes(), begin = part_.begin * dtype_bytes(dtype_);
    for (std::size_t k = 0; k < map_.packed().size(); ++k)
      move_bytes(part(static_cast<Index>(k)), part_.output.data() + map_.packed()[k] * bytes + begin, part_bytes_);
  }

 private:
  [[nodiscard]] ConstView input() const { return {part_.input.data() + part_.begin * dtype_bytes(dtype_), dtype_, {length_}}; }
  AllGatherPart part_;
};

}  // namespace

Buffer Store::take(Index bytes) {
  const auto found = std::find_if(spare_.begin(), spare_.end(), [&](const Buffer& buffer) { return buffer.bytes() >= bytes; });
  if (found == spare_.end()) return Buffer(bytes);
  Buffer buffer = std::move(*found);
  spare_.erase(found);
  return buffer;
}

std::unique_ptr<StagedWork> make_all_reduce(Levels& levels, View data, Reduce reduce) { return std::make_unique<AllReduce>(levels, data, reduce); }
std::unique_ptr<StagedWork> make_reduce_scatter(Levels& levels, const ReduceScatterPart& part) { return std::make_unique<ReduceScatter>(levels, part); }
std::unique_ptr<StagedWork> make_all_gather(Levels& levels, const AllGatherPart& part) { return std::make_unique<AllGather>(levels, part); }

}  // namespace optimus::two_level
