#include <algorithm>
#include <numeric>

#include "optimus/base/timer.hpp"
#include "optimus/comm/delayed/delayed.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

TEST_P(Transports, AllReduceGivesTheSumInMemberOrderOnAllMembers) {
  for (const DType dtype : kSummedTypes)
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMax, Reduce::kMin})
      for (const Index count : kCounts) {
        std::vector<Tensor> inputs = inputs_of_all(dtype, count);
        Tensor mine = inputs[static_cast<std::size_t>(rank())];
        comm().all_reduce(mine.view(), reduce);
        EXPECT_EQ(mine, reduced(inputs, dtype, 0, count, reduce)) << dtype_name(dtype) << " " << count;
      }
}

TEST_P(Transports, ReduceScatterGivesEachMemberItsPartOfTheSum) {
  for (const DType dtype : kSummedTypes)
    for (const Index count : kCounts) {
      std::vector<Tensor> inputs = inputs_of_all(dtype, count * size());
      Tensor output(dtype, count);
      comm().reduce_scatter(inputs[static_cast<std::size_t>(rank())].view(), output.view());
      EXPECT_EQ(output, reduced(inputs, dtype, rank() * count, count, Reduce::kSum)) << dtype_name(dtype) << " " << count;
    }
}

TEST_P(Transports, ReduceScatterMayWriteIntoItsOwnPartOfTheInput) {
  const Index count = 1031;
  std::vector<Tensor> inputs = inputs_of_all(DType::kF32, count * size());
  Tensor mine = inputs[static_cast<std::size_t>(rank())];
  comm().reduce_scatter(mine.view(), mine.part(rank() * count, (rank() + 1) * count));
  const Tensor wanted = reduced(inputs, DType::kF32, rank() * count, count, Reduce::kSum);
  Tensor got(DType::kF32, count);
  std::memcpy(got.view().data(), mine.part(rank() * count, (rank() + 1) * count).data(), static_cast<std::size_t>(got.view().bytes()));
  EXPECT_EQ(got, wanted);
}

TEST_P(Transports, AllGatherPutsThePartsInMemberOrder) {
  for (const DType dtype : kAllTypes)
    for (const Index count : kCounts) {
      Tensor output(dtype, count * size()), wanted(dtype, count * size()), input(dtype, count);
      input.fill_bytes(rank());
      for (Index m = 0; m < size(); ++m) {
        Tensor part(dtype, count);
        part.fill_bytes(m);
        if (count > 0) std::memcpy(wanted.part(m * count, (m + 1) * count).data(), part.view().data(), static_cast<std::size_t>(part.view().bytes()));
      }
      comm().all_gather(input.view(), output.view());
      EXPECT_EQ(output, wanted) << dtype_name(dtype) << " " << count;
      // In place: the own part is already where it belongs.
      Tensor in_place(dtype, count * size());
      const View own = in_place.part(rank() * count, (rank() + 1) * count);
      if (count > 0) std::memcpy(own.data(), input.view().data(), static_cast<std::size_t>(own.bytes()));
      comm().all_gather(own, in_place.view());
      EXPECT_EQ(in_place, wanted) << dtype_name(dtype) << " " << count;
    }
}

TEST_P(Transports, AllGatherVTakesUnevenAndEmptyParts) {
  std::vector<Index> counts;
  for (Index m = 0; m < size(); ++m) counts.push_back(m % 2 == 0 ? 1031 * m + 3 : 0);
  const Index total = std::accumulate(counts.begin(), counts.end(), Index{0});
  for (const DType dtype : kAllTypes) {
    Tensor input(dtype, counts[static_cast<std::size_t>(rank())]), output(dtype, total);
    input.fill_bytes(rank());
    if (dtype == DType::kF32) comm().start_all_gather_v(input.view(), output.view(), counts)->wait();
    else comm().all_gather_v(input.view(), output.view(), counts);
    Index begin = 0;
    for (Index m = 0; m < size(); ++m) {
      Tensor part(dtype, counts[static_cast<std::size_t>(m)]);
      part.fill_bytes(m);
      const int difference =
          part.count() == 0 ? 0
                            : std::memcmp(output.view().data() + begin * dtype_bytes(dtype), part.view().data(), static_cast<std::size_t>(part.view().bytes()));
      EXPECT_EQ(difference, 0) << dtype_name(dtype) << " of " << m;
      begin += part.count();
    }
  }
}

TEST_P(Transports, ReduceScatterVTakesUnevenAndEmptyParts) {
  std::vector<Index> counts;
  for (Index m = 0; m < size(); ++m) counts.push_back(m % 2 == 0 ? 1031 * m + 3 : 0);
  const Index total = std::accumulate(counts.begin(), counts.end(), Index{0}), mine = counts[static_cast<std::size_t>(rank())];
  const Index begin = std::accumulate(counts.begin(), counts.begin() + rank(), Index{0});
  for (const DType dtype : kSummedTypes)
    for (const Reduce reduce : {Reduce::kSum, Reduce::kMax, Reduce::kMin}) {
      std::vector<Tensor> inputs = inputs_of_all(dtype, total);
      Tensor input = inputs[static_cast<std::size_t>(rank())], output(dtype, mine);
      const Tensor wanted = reduced(inputs, dtype, begin, mine, reduce);
      comm().start_reduce_scatter_v(input.view(), output.view(), counts, reduce)->wait();
      EXPECT_EQ(output, wanted) << dtype_name(dtype);
      // In place: the result replaces the own part.
      const View own = input.part(begin, begin + mine);
      comm().start_reduce_scatter_v(input.view(), own, counts, reduce)->wait();
      EXPECT_EQ(mine == 0 ? 0 : std::memcmp(own.data(), output.view().data(), static_cast<std::size_t>(own.bytes())), 0) << dtype_name(dtype);
    }
}

TEST_P(Transports, AllToAllVDeliversEveryPairsPart) {
  // Member a sends (3a + 5b) mod 4 * 97 elements to member b: uneven, and some pairs nothing.
  const auto count = [](Index a, Index b) { return (3 * a + 5 * b) % 4 * 97; };
  const auto value = [](Index a, Index b, Index i) { return static_cast<std::int32_t>(10000 * a + 1000 * b + i); };
  std::vector<Index> send_counts, recv_counts;
  std::vector<std::int32_t> input, wanted;
  for (Index m = 0; m < size(); ++m) {
    send_counts.push_back(count(rank(), m));
    recv_counts.push_back(count(m, rank()));
    for (Index i = 0; i < count(rank(), m); ++i) input.push_back(value(rank(), m, i));
    for (Index i = 0; i < count(m, rank()); ++i) wanted.push_back(value(m, rank(), i));
  }
  std::vector<std::int32_t> output(wanted.size(), -1);
  const ConstView sent{reinterpret_cast<const std::byte*>(input.data()), DType::kI32, {static_cast<Index>(input.size())}};
  const View received{reinterpret_cast<std::byte*>(output.data()), DType::kI32, {static_cast<Index>(output.size())}};
  comm().all_to_all_v(sent, send_counts, received, recv_counts);
  EXPECT_EQ(output, wanted);
  std::ranges::fill(output, -1);
  comm().start_all_to_all_v(sent, send_counts, received, recv_counts)->wait();
  EXPECT_EQ(output, wanted);
}

TEST_P(Transports, BroadcastCopiesTheRootsDataFromEveryRoot) {
  for (const DType dtype : kAllTypes)
    for (Index root = 0; root < size(); ++root)
      for (const Index count : {Index{0}, Index{1}, Index{1031}, Index{140'001}}) {
        if (count * dtype_bytes(dtype) > 1000 * GetParam().tuning.message_bytes) continue;  // would be thousands of tiny messages
        Tensor data(dtype, count), wanted(dtype, count);
        wanted.fill_bytes(root + 50);
        data.fill_bytes(rank() + 50);
        comm().broadcast(data.view(), root);
        EXPECT_EQ(data, wanted) << dtype_name(dtype) << " from " << root << ", " << count;
      }
}

TEST_P(Transports, NonBlockingFormsGiveTheSameBitsWithManyUnderWay) {
  for (const DType dtype : kSummedTypes) {
    const Index count = 1031;
    std::vector<Tensor> inputs = inputs_of_all(dtype, count * size());
    Tensor& mine = inputs[static_cast<std::size_t>(rank())];
    Tensor blocking_scattered(dtype, count), scattered(dtype, count), gathered(dtype, count * size() * size()), summed = mine, blocking_summed = mine;
    comm().reduce_scatter(mine.view(), blocking_scattered.view());
    comm().all_reduce(blocking_summed.view(), Reduce::kSum);

    auto reduce_scatter = comm().start_reduce_scatter(mine.view(), scattered.view());
    auto all_reduce = comm().start_all_reduce(summed.view(), Reduce::kSum);
    auto all_gather = comm().start_all_gather(mine.view(), gathered.view());
    // Each member waits in another order: what is under way must progress whatever is waited for.
    if (rank() % 2 == 0) {
      reduce_scatter->wait();
      all_reduce->wait();
      all_gather->wait();
    } else {
      all_gather->wait();
      while (!all_reduce->test()) continue;
      reduce_scatter->wait();
    }
    EXPECT_EQ(scattered, blocking_scattered);
    EXPECT_EQ(summed, blocking_summed);
    for (Index m = 0; m < size(); ++m)
      EXPECT_EQ(std::memcmp(gathered.part(m * mine.count(), (m + 1) * mine.count()).data(), inputs[static_cast<std::size_t>(m)].view().data(),
                            static_cast<std::size_t>(mine.view().bytes())),
                0);
  }
}

TEST_P(Transports, PollAloneBringsATransferToItsEnd) {
  for (const Index count : {Index{5}, Index{4099}}) {
    std::vector<Tensor> inputs = inputs_of_all(DType::kF32, count);
    Tensor mine = inputs[static_cast<std::size_t>(rank())];
    const Tensor wanted = reduced(inputs, DType::kF32, 0, count, Reduce::kSum);
    const auto request = comm().start_all_reduce(mine.view(), Reduce::kSum);
    const Timer timer;
    while (!(mine == wanted) && timer.seconds() < kTimeLimit) comm().poll();
    EXPECT_EQ(mine, wanted);
    request->wait();
  }
  for (int i = 0; i < 1000; ++i) comm().poll();  // nothing under way
}

TEST_P(Transports, RepeatedReductionsGiveTheSameBits) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Index count = 4099;
    Tensor mine(dtype, count * size()), first_scattered(dtype, count);
    mine.fill_numbers(rank());
    Tensor first_summed = mine;
    comm().all_reduce(first_summed.view(), Reduce::kSum);
    comm().reduce_scatter(mine.view(), first_scattered.view());
    for (int i = 0; i < 10; ++i) {
      Tensor summed = mine, scattered(dtype, count);
      comm().all_reduce(summed.view(), Reduce::kSum);
      comm().reduce_scatter(mine.view(), scattered.view());
      ASSERT_EQ(summed, first_summed) << dtype_name(dtype) << ", repetition " << i;
      ASSERT_EQ(scattered, first_scattered) << dtype_name(dtype) << ", repetition " << i;
    }
  }
}

TEST_P(Transports, SendAndReceiveKeepOrderAndTagsApart) {
  const Index next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  std::vector<Tensor> out, in;
  std::vector<std::unique_ptr<Request>> requests;
  for (Index i = 0; i < 6; ++i) {
    out.emplace_back(DType::kF32, 300 * i).fill_bytes(rank() * 10 + i);
    in.emplace_back(DType::kF32, 300 * i);
  }
  for (Index i = 0; i < 6; ++i) requests.push_back(comm().start_send(out[static_cast<std::size_t>(i)].view(), next, static_cast<int>(i % 2)));
  for (const Index i : {1, 0, 3, 2, 5, 4}) requests.push_back(comm().start_receive(in[static_cast<std::size_t>(i)].view(), previous, static_cast<int>(i % 2)));
  for (auto& request : requests) request->wait();
  for (Index i = 0; i < 6; ++i) {
    Tensor wanted(DType::kF32, 300 * i);
    wanted.fill_bytes(previous * 10 + i);
    EXPECT_EQ(in[static_cast<std::size_t>(i)], wanted) << i;
  }
}

TEST_P(Transports, BarrierAndEmptyCollectivesReturn) {
  for (int i = 0; i < 20; ++i) comm().barrier();
}

TEST_P(Transports, TextsAreGatheredAndBroadcast) {
  const std::vector<std::string> texts = all_gather_text(comm(), std::string(static_cast<std::size_t>(rank() * 3), 'x') + std::to_string(rank()));
  ASSERT_EQ(static_cast<Index>(texts.size()), size());
  for (Index m = 0; m < size(); ++m) EXPECT_EQ(texts[static_cast<std::size_t>(m)], std::string(static_cast<std::size_t>(m * 3), 'x') + std::to_string(m));
  EXPECT_EQ(broadcast_text(comm(), "from " + std::to_string(rank()), size() - 1), "from " + std::to_string(size() - 1));
  EXPECT_EQ(broadcast_text(comm(), "", 0), "");
}

std::unique_ptr<Communicator> make_world() { return mpi().world(); }
std::unique_ptr<Communicator> make_delayed_world() {
  return make_delayed_communicator(mpi().world(), [](std::string_view) { return Link{.latency_s = 2e-5, .bytes_per_s = 1e9}; });
}
const Transport kTransports[] = {
    {"self", [] { return make_self_communicator(); }, {}},
    {"mpi", make_world, {}},
    {"mpi_short_messages", make_world, {.message_bytes = 100, .staging_bytes = 1, .gathered_reduce_bytes = 0}},
    {"mpi_trees", make_world, {.gathered_reduce_bytes = 1 << 20, .direct_members = 1, .peers_per_round = 1}},
    {"delayed", make_delayed_world, {}},
};
INSTANTIATE_TEST_SUITE_P(All, Transports, testing::ValuesIn(kTransports), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace optimus::test
