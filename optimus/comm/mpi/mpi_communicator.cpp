#include "optimus/comm/mpi/mpi_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "optimus/comm/arguments.hpp"
#include "optimus/comm/local_reduce.hpp"
#include "optimus/comm/mpi/reduction.hpp"

namespace optimus::mpi {
namespace {

// MPI promises tags up to 32767. Users have 0 … kMaxTag, the making of subgroups one, collectives take turns with the rest.
constexpr int kSubgroupTag = arguments::kMaxTag + 1;
constexpr int kFirstCollectiveTag = kSubgroupTag + 1;
constexpr int kNumCollectiveTags = 32767 - kFirstCollectiveTag;
/// From here on a broadcast to more than two is handed out in parts.
constexpr Index kLongBroadcast = Index{256} << 10;

class MpiRequest final : public Request {
 public:
  MpiRequest(Engine& engine, std::unique_ptr<Operation> operation, const char* collective)
      : engine_(engine), operation_(std::move(operation)), collective_(collective) {
    try {
      operation_->start();
    } catch (...) {
      engine_.abandon(*operation_);
      throw;
    }
  }
  ~MpiRequest() override {
    if (!operation_->is_done()) engine_.abandon(*operation_);
  }
  void wait() override { engine_.wait(*operation_, collective_); }
  [[nodiscard]] bool test() override { return engine_.test(*operation_, collective_); }

 private:
  Engine& engine_;
  std::unique_ptr<Operation> operation_;
  const char* collective_;
};

void move_bytes(const std::byte* from, std::byte* to, Index bytes) {
  if (bytes > 0 && from != to) std::memmove(to, from, static_cast<std::size_t>(bytes));
}

/// Parts of `data` of counts[m] elements each, one after another.
std::vector<Part> parts_of(const std::byte* data, std::span<const Index> counts, Index element_bytes) {
  std::vector<Part> parts;
  std::byte* begin = const_cast<std::byte*>(data);
  for (const Index count : counts) {
    parts.push_back({begin, count * element_bytes});
    begin += count * element_bytes;
  }
  return parts;
}

Plan plan_all_gather(const Place& place, const std::vector<Part>& parts) {
  const std::vector<Part> mine(parts.size(), parts[static_cast<std::size_t>(place.rank)]);
  return plan_all_to_all(place, mine, parts);
}

}  // namespace

Channel MpiCommunicator::next_channel() { return {&engine_, group_.get(), kFirstCollectiveTag + static_cast<int>(num_collectives_++ % kNumCollectiveTags)}; }

std::unique_ptr<Request> MpiCommunicator::start(std::unique_ptr<Operation> operation, const char* collective) {
  return std::make_unique<MpiRequest>(engine_, std::move(operation), collective);
}

std::unique_ptr<Request> MpiCommunicator::start_reduce_scatter(ConstView input, View output) {
  arguments::check_reduce_scatter(*this, input, output);
  check_reducible(input.dtype());
  Division division;
  for (Index m = 0; m <= size(); ++m) division.begins.push_back(m * output.count());
  return start(std::make_unique<PartReduction>(next_channel(), ReductionSpec{input, std::move(division), output.data(), Reduce::kSum}), "reduce_scatter");
}

std::unique_ptr<Request> MpiCommunicator::start_all_gather(ConstView input, View output) {
  arguments::check_all_gather(*this, input, output);
  const Index bytes = input.bytes();
  const bool is_small = checked_mul(bytes, size()) <= (Index{1} << 20);
  if (!is_direct() && is_small && bytes > 0) {
    auto staging = std::make_shared<Staging>(engine_, bytes * size());
    move_bytes(input.data(), staging->data(), bytes);
    const Place where = place();
    auto unrotate = [staging, output, bytes, where] {
      for (Index j = 0; j < where.size; ++j) move_bytes(staging->data() + j * bytes, output.data() + (where.rank + j) % where.size * bytes, bytes);
    };
    return start(std::make_unique<Exchange>(next_channel(), plan_doubling_gather(where, staging->data(), bytes), std::move(unrotate)), "all_gather");
  }
  const std::vector<Index> counts(static_cast<std::size_t>(size()), input.count());
  move_bytes(input.data(), output.data() + rank() * bytes, bytes);
  return start(std::make_unique<Exchange>(next_channel(), plan_all_gather(place(), parts_of(output.data(), counts, dtype_bytes(input.dtype())))), "all_gather");
}

std::unique_ptr<Operation> MpiCommunicator::gather_and_add(View data, Reduce reduce) {
  // Everything everywhere, then each member adds for itself, in the same order as the others.
  const Index bytes = data.bytes();
  const Place where = place();
  auto staging = std::make_shared<Staging>(engine_, bytes * size());
  const Index first = is_direct() ? 0 : rank();  // whose block stands first
  const auto block = [staging, bytes, first, where](Index m) { return staging->data() + (m - first + where.size) % where.size * bytes; };
  move_bytes(data.data(), block(rank()), bytes);
  auto add = [staging, block, data, reduce, where] {
    std::vector<const std::byte*> sources;
    sources.reserve(static_cast<std::size_t>(where.size));
    for (Index m = 0; m < where.size; ++m) sources.push_back(block(m));
    reduce_in_order(sources, data.dtype(), reduce, data.count(), data.data());
  };
  if (!is_direct()) return std::make_unique<Exchange>(next_channel(), plan_doubling_gather(where, staging->data(), bytes), std::move(add));
  std::vector<Part> parts;
  parts.reserve(static_cast<std::size_t>(size()));
  for (Index m = 0; m < size(); ++m) parts.push_back({block(m), bytes});
  return std::make_unique<Exchange>(next_channel(), plan_all_gather(where, parts), std::move(add));
}

std::unique_ptr<Request> MpiCommunicator::start_all_reduce(View data, Reduce reduce) {
  check_reducible(data.dtype());
  const MpiTuning& tuning = engine_.tuning();
  if (size() == 1) return start(std::make_unique<Exchange>(next_channel(), Plan{}), "all_reduce");
  if (data.bytes() <= tuning.gathered_reduce_bytes && checked_mul(data.bytes(), size()) <= (Index{1} << 20))
    return start(gather_and_add(data, reduce), "all_reduce");
  Division division = divide(data.count(), size());
  std::vector<Index> counts;
  counts.reserve(static_cast<std::size_t>(size()));
  for (Index m = 0; m < size(); ++m) counts.push_back(division.count(m));
  const Index element_bytes = dtype_bytes(data.dtype());
  std::byte* mine = data.data() + division.begin(rank()) * element_bytes;
  auto operation = std::make_unique<PartReduction>(next_channel(), ReductionSpec{data, std::move(division), mine, reduce});
  operation->then(std::make_unique<Exchange>(next_channel(), plan_all_gather(place(), parts_of(data.data(), counts, element_bytes))));
  return start(std::move(operation), "all_reduce");
}

std::unique_ptr<Request> MpiCommunicator::start_reduce_scatter_v(ConstView input, View output, std::span<const Index> counts, Reduce reduce) {
  arguments::check_reduce_scatter_v(*this, input, output, counts);
  check_reducible(input.dtype());
  Division division{.begins = {0}};
  for (const Index count : counts) division.begins.push_back(division.begins.back() + count);
  return start(std::make_unique<PartReduction>(next_channel(), ReductionSpec{input, std::move(division), output.data(), reduce}), "reduce_scatter_v");
}

std::unique_ptr<Request> MpiCommunicator::start_all_gather_v(ConstView input, View output, std::span<const Index> counts) {
  arguments::check_all_gather_v(*this, input, output, counts);
  const std::vector<Part> parts = parts_of(output.data(), counts, dtype_bytes(input.dtype()));
  move_bytes(input.data(), parts[static_cast<std::size_t>(rank())].data, input.bytes());
  return start(std::make_unique<Exchange>(next_channel(), plan_all_gather(place(), parts)), "all_gather_v");
}

std::unique_ptr<Request> MpiCommunicator::start_all_to_all_v(ConstView input, std::span<const Index> send_counts, View output,
                                                             std::span<const Index> recv_counts) {
  arguments::check_all_to_all_v(*this, input, send_counts, output, recv_counts);
  const auto me = static_cast<std::size_t>(rank());
  const std::vector<Part> sent = parts_of(input.data(), send_counts, dtype_bytes(input.dtype())),
                          received = parts_of(output.data(), recv_counts, dtype_bytes(input.dtype()));
  move_bytes(sent[me].data, received[me].data, sent[me].bytes);
  return start(std::make_unique<Exchange>(next_channel(), plan_all_to_all(place(), sent, received)), "all_to_all_v");
}

void MpiCommunicator::broadcast(View data, Index root) {
  arguments::check_member(*this, "broadcast", root);
  const bool is_long = data.bytes() >= std::min(kLongBroadcast, engine_.tuning().message_bytes) && size() > 2;
  Plan plan =
      is_long ? plan_scattered_broadcast(place(), data.data(), data.bytes(), root) : plan_broadcast(place(), data.data(), data.bytes(), root, is_direct());
  start(std::make_unique<Exchange>(next_channel(), std::move(plan)), "broadcast")->wait();
}

void MpiCommunicator::barrier() {
  std::array<std::byte, 2> bytes{};
  start(std::make_unique<Exchange>(next_channel(), plan_barrier(place(), bytes.data(), is_direct())), "barrier")->wait();
}

std::unique_ptr<Request> MpiCommunicator::start_send(ConstView data, Index to, int tag) {
  arguments::check_member(*this, "send", to);
  arguments::check_tag(*this, tag);
  Plan plan;
  plan.begin_round();
  plan.send(data.data(), data.bytes(), to);
  return start(std::make_unique<Exchange>(Channel{&engine_, group_.get(), tag}, std::move(plan)), "send");
}

std::unique_ptr<Request> MpiCommunicator::start_receive(View data, Index from, int tag) {
  arguments::check_member(*this, "receive", from);
  arguments::check_tag(*this, tag);
  Plan plan;
  plan.begin_round();
  plan.receive(data.data(), data.bytes(), from);
  return start(std::make_unique<Exchange>(Channel{&engine_, group_.get(), tag}, std::move(plan)), "receive");
}

// MPI makes communicators without a time limit; the barriers before it find a missing member first.

std::unique_ptr<Communicator> MpiCommunicator::split(Index color, Index key, std::string name) {
  if (color < 0) throw ShapeError("[comm] split over " + group_->name() + ": colors are 0 or more");
  barrier();
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(group_->comm(), narrow<int>(color), narrow<int>(key), &comm), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(engine_, std::make_unique<Group>(comm, std::move(name)));
}

std::unique_ptr<Communicator> MpiCommunicator::split_by_node() {
  barrier();
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split_type(group_->comm(), MPI_COMM_TYPE_SHARED, narrow<int>(rank()), MPI_INFO_NULL, &comm), "MPI_Comm_split_type");
  return std::make_unique<MpiCommunicator>(engine_, std::make_unique<Group>(comm, "node"));
}

std::unique_ptr<Communicator> MpiCommunicator::subgroup(std::span<const Index> members, std::string name) {
  const Index mine = arguments::check_subgroup(*this, members);
  const Index num_members = static_cast<Index>(members.size());
  std::array<std::byte, 2> bytes{};
  Plan plan = plan_barrier({mine, num_members, engine_.tuning().peers_per_round}, bytes.data(), num_members <= engine_.tuning().direct_members);
  for (Transfer& transfer : plan.transfers) transfer.member = members[static_cast<std::size_t>(transfer.member)];
  start(std::make_unique<Exchange>(Channel{&engine_, group_.get(), kSubgroupTag}, std::move(plan)), "subgroup")->wait();

  std::vector<int> ranks;
  for (const Index member : members) ranks.push_back(narrow<int>(member));
  MPI_Group all = MPI_GROUP_NULL, chosen = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_group(group_->comm(), &all), "MPI_Comm_group");
  check(MPI_Group_incl(all, narrow<int>(num_members), ranks.data(), &chosen), "MPI_Group_incl");
  check(MPI_Comm_create_group(group_->comm(), chosen, kSubgroupTag, &comm), "MPI_Comm_create_group");
  MPI_Group_free(&chosen);
  MPI_Group_free(&all);
  return std::make_unique<MpiCommunicator>(engine_, std::make_unique<Group>(comm, std::move(name)));
}

}  // namespace optimus::mpi
