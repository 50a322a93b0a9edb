#include "optimus/comm/two_level/two_level.hpp"

#include <algorithm>
#include <numeric>

#include "optimus/base/counted.hpp"
#include "optimus/base/log.hpp"
#include "optimus/comm/arguments.hpp"
#include "optimus/comm/local_reduce.hpp"
#include "optimus/comm/two_level/works.hpp"

namespace optimus {
namespace {

using two_level::Levels;
using two_level::NodeMap;
using two_level::Seat;
using two_level::StageQueue;

/// Where everybody stands.  Collective: over `node`, then over `group`.
NodeMap map_nodes(Communicator& group, Communicator& node) {
  Index first = group.rank();
  node.broadcast({reinterpret_cast<std::byte*>(&first), DType::kI64, {1}}, 0);
  const Seat mine{first, node.rank()};
  static_assert(sizeof(Seat) == 2 * sizeof(Index));
  std::vector<Seat> seats(static_cast<std::size_t>(group.size()));
  group.all_gather({reinterpret_cast<const std::byte*>(&mine), DType::kI64, {2}},
                   {reinterpret_cast<std::byte*>(seats.data()), DType::kI64, {2 * group.size()}});
  return NodeMap(seats, group.rank());
}

/// Done when all its works are.
class TwoLevelRequest final : public Request {
 public:
  explicit TwoLevelRequest(StageQueue& queue) : queue_(queue) {}
  ~TwoLevelRequest() override {
    for (const auto& job : jobs_)
      if (!job->is_done) queue_.drop(job);
  }
  void add(std::unique_ptr<two_level::StagedWork> work) { jobs_.push_back(queue_.push(std::move(work))); }
  void wait() override {
    for (const auto& job : jobs_) queue_.wait(*job);
  }
  [[nodiscard]] bool test() override {
    queue_.advance();
    return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->is_done; });
  }

 private:
  StageQueue& queue_;
  std::vector<StageQueue::JobHandle> jobs_;
};

class TwoLevelCommunicator final : public Communicator {
 public:
  TwoLevelCommunicator(std::unique_ptr<Communicator> group, std::unique_ptr<Communicator> node, NodeMap map, const TwoLevelTuning& tuning)
      : group_(std::move(group)), levels_{std::move(map), nullptr, nullptr, std::move(node), {}}, tuning_(tuning), queue_(*group_) {
    const std::string name = group_->name();
    std::vector<Index> members(static_cast<std::size_t>(levels_.last->size()));
    std::iota(members.begin(), members.end(), Index{0});
    levels_.first = levels_.last->subgroup(members, name + "_inside");
    if (levels_.map.has_lane()) levels_.between = group_->subgroup(levels_.map.lane_members(levels_.map.place()), name + "_between");
  }

  [[nodiscard]] Index rank() const override { return group_->rank(); }
  [[nodiscard]] Index size() const override { return group_->size(); }
  [[nodiscard]] const std::string& name() const override { return group_->name(); }
  [[nodiscard]] bool is_dry() const override { return false; }

  void all_reduce(View data, Reduce reduce) override { start_all_reduce(data, reduce)->wait(); }
  void reduce_scatter(ConstView input, View output) override { start_reduce_scatter(input, output)->wait(); }
  void all_gather(ConstView input, View output) override { start_all_gather(input, output)->wait(); }

  [[nodiscard]] std::unique_ptr<Request> start_all_reduce(View data, Reduce reduce) override {
    check_reducible(data.dtype());
    return start([&](TwoLevelRequest& request) { request.add(two_level::make_all_reduce(levels_, data, reduce)); });
  }
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter(ConstView input, View output) override {
    arguments::check_reduce_scatter(*this, input, output);
    check_reducible(input.dtype());
    return start([&](TwoLevelRequest& request) {
      for_each_piece(output, [&](Index begin, Index end) { request.add(two_level::make_reduce_scatter(levels_, {input, output, begin, end})); });
    });
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather(ConstView input, View output) override {
    arguments::check_all_gather(*this, input, output);
    return start([&](TwoLevelRequest& request) {
      for_each_piece(input, [&](Index begin, Index end) { request.add(two_level::make_all_gather(levels_, {input, output, begin, end})); });
    });
  }

  // What is not worth two levels.
  void all_gather_v(ConstView input, View output, std::span<const Index> counts) override { group_->all_gather_v(input, output, counts); }
  void all_to_all_v(ConstView input, std::span<const Index> send_counts, View output, std::span<const Index> recv_counts) override {
    group_->all_to_all_v(input, send_counts, output, recv_counts);
  }
  void broadcast(View data, Index root) override { group_->broadcast(data, root); }
  void send(ConstView data, Index to, int tag) override { group_->send(data, to, tag); }
  void receive(View data, Index from, int tag) override { group_->receive(data, from, tag); }
  void barrier() override { group_->barrier(); }
  void poll() override { group_->poll(); }
  void add_progress(Progress& progress) override { group_->add_progress(progress); }
  void remove_progress(Progress& progress) noexcept override { group_->remove_progress(progress); }
  [[nodiscard]] std::unique_ptr<Request> start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce reduce) override {
    return group_->start_reduce_scatter_v(input, output, counts, reduce);
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_gather_v(ConstView input, View output, std::span<const Index> counts) override {
    return group_->start_all_gather_v(input, output, counts);
  }
  [[nodiscard]] std::unique_ptr<Request> start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                            std::span<const Index> recv_counts) override {
    return group_->start_all_to_all_v(input, send_counts, output, recv_counts);
  }
  [[nodiscard]] std::unique_ptr<Request> start_send(ConstView data, Index to, int tag) override { return group_->start_send(data, to, tag); }
  [[nodiscard]] std::unique_ptr<Request> start_receive(View data, Index from, int tag) override { return group_->start_receive(data, from, tag); }
  [[nodiscard]] std::unique_ptr<Communicator> split(Index color, Index key, std::string name) override { return group_->split(color, key, std::move(name)); }
  [[nodiscard]] std::unique_ptr<Communicator> split_by_node() override { return group_->split_by_node(); }
  [[nodiscard]] std::unique_ptr<Communicator> subgroup(std::span<const Index> members, std::string name) override {
    return group_->subgroup(members, std::move(name));
  }
  void set_context(std::string context) override { group_->set_context(std::move(context)); }
  void announce_failure() noexcept override { group_->announce_failure(); }

 private:
  template <class Fill> std::unique_ptr<Request> start(Fill&& fill) {
    auto request = std::make_unique<TwoLevelRequest>(queue_);
    fill(*request);
    queue_.advance();
    return request;
  }
  /// `part`: of one member. The same pieces on all members, each within the memory that is allowed.
  template <class Action> void for_each_piece(ConstView part, Action&& action) const {
    const Index bytes = checked_mul(dtype_bytes(part.dtype()), size());
    const Index length = std::max<Index>(1, tuning_.piece_bytes / bytes);
    for (Index begin = 0; begin < part.count(); begin += length) action(begin, std::min(begin + length, part.count()));
  }

  std::unique_ptr<Communicator> group_;
  Levels levels_;
  TwoLevelTuning tuning_;
  StageQueue queue_;
};

}  // namespace

std::unique_ptr<Communicator> by_node(Communicator& group) { return group.split_by_node(); }

std::unique_ptr<Communicator> make_two_level_communicator(std::unique_ptr<Communicator> group, std::unique_ptr<Communicator> node,
                                                          const TwoLevelTuning& tuning) {
  NodeMap map = map_nodes(*group, *node);
  return std::make_unique<TwoLevelCommunicator>(std::move(group), std::move(node), std::move(map), tuning);
}

std::unique_ptr<Communicator> make_reduction_group(Communicator& world, const Mesh& mesh, Axis axis, std::string_view two_level, const NodeSplit& split) {
  auto group = make_axis_group(world, mesh, axis);
  if (two_level == "off" || group->size() == 1 || world.is_dry()) return group;
  auto node = split(*group);
  NodeMap map = map_nodes(*group, *node);
  if (two_level == "auto" && (map.num_nodes() == 1 || map.largest_node() == 1)) return group;
  if (world.rank() == 0)
    log_info("[comm] {}: {} on {}, {} to {} on each; sums go inside a node first, then between nodes", group->name(), counted(group->size(), "member"),
             counted(map.num_nodes(), "node"), map.num_lanes(), map.largest_node());
  return std::make_unique<TwoLevelCommunicator>(std::move(group), std::move(node), std::move(map), TwoLevelTuning{});
}

}  // namespace optimus
