#include "optimus/comm/delayed/delayed.hpp"

#include <chrono>
#include <cmath>

#include "optimus/base/timer.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

constexpr double kLatency = 0.004, kBytesPerSecond = 1e6;

std::unique_ptr<DelayedCommunicator> slow_world() {
  return make_delayed_communicator(world(), [](std::string_view) { return Link{.latency_s = kLatency, .bytes_per_s = kBytesPerSecond}; });
}

/// How long a transfer is said to take in which this rank sends `bytes`.
double seconds_of(double bytes) { return kLatency + bytes / kBytesPerSecond; }

template <class Action>
void expect_no_earlier(double seconds, Action&& action) {
  const Timer timer;
  action();
  EXPECT_GE(timer.seconds(), world().size() > 1 ? seconds : 0);
}

double sum(const std::vector<DelayTotals>& totals, double DelayTotals::* member) {
  double all = 0;
  for (const DelayTotals& group : totals) all += group.*member;
  return all;
}

TEST(Delayed, NoCollectiveIsDoneBeforeItsBytesAreOver) {
  const auto comm = slow_world();
  const auto n = static_cast<double>(comm->size());
  const Index count = 250;  // 1000 bytes
  Tensor one(DType::kF32, count), all(DType::kF32, count * comm->size());
  const std::vector<Index> counts(static_cast<std::size_t>(comm->size()), count);
  expect_no_earlier(seconds_of(2 * 1000 * (n - 1) / n - 1), [&] { comm->all_reduce(one.view(), Reduce::kSum); });
  expect_no_earlier(seconds_of(1000 * (n - 1)), [&] { comm->reduce_scatter(all.view(), one.view()); });
  expect_no_earlier(seconds_of(1000 * (n - 1)), [&] { comm->all_gather(one.view(), all.view()); });
  expect_no_earlier(seconds_of(1000 * (n - 1)), [&] { comm->all_gather_v(one.view(), all.view(), counts); });
  Tensor other(DType::kF32, count * comm->size());
  expect_no_earlier(seconds_of(1000 * (n - 1)), [&] { comm->all_to_all_v(all.view(), counts, other.view(), counts); });
  expect_no_earlier(seconds_of(1000), [&] { comm->broadcast(one.view(), 0); });
  expect_no_earlier(seconds_of(0), [&] { comm->barrier(); });
}

TEST(Delayed, AReceivedMessageIsNotThereBeforeItsSendersLinkIsDone) {
  const auto comm = slow_world();
  if (comm->size() == 1) return;
  Tensor out(DType::kF32, 1000), in(DType::kF32, 1000);
  out.fill_bytes(comm->rank());
  const Index next = (comm->rank() + 1) % comm->size(), previous = (comm->rank() + comm->size() - 1) % comm->size();
  comm->barrier();
  const Timer timer;
  const auto receive = comm->start_receive(in.view(), previous, 0);
  const auto send = comm->start_send(out.view(), next, 0);
  send->wait();
  EXPECT_GE(timer.seconds(), seconds_of(4000));
  receive->wait();
  EXPECT_TRUE(receive->test());
  Tensor wanted(DType::kF32, 1000);
  wanted.fill_bytes(previous);
  EXPECT_EQ(in, wanted);
}

TEST(Delayed, AReceiverWaitsForTheSendersLinkEvenIfItAskedEarlier) {
  const auto comm = slow_world();
  if (comm->size() == 1 || comm->rank() > 1) return;
  Tensor data(DType::kF32, 2000);
  // All 0 says of its clock is true on this machine: the message is done no earlier than its start and its 8 kB.
  std::int64_t start_ns = 0;
  const View start{reinterpret_cast<std::byte*>(&start_ns), DType::kI64, {1}};
  const auto now_ns = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  if (comm->rank() == 0) {
    start_ns = now_ns();
    const auto send = comm->start_send(data.view(), 1, 5);
    comm->send(start, 1, 6);
    send->wait();
  } else {
    comm->receive(data.view(), 0, 5);
    const auto end_ns = now_ns();
    comm->receive(start, 0, 6);
    EXPECT_GE(static_cast<double>(end_ns - start_ns) * 1e-9, seconds_of(8000));
  }
}

TEST(Delayed, TransfersOfOneGroupQueueBehindEachOther) {
  const auto comm = slow_world();
  std::vector<Tensor> data(3, Tensor(DType::kF32, 1000));
  const auto n = static_cast<double>(comm->size());
  const double each = seconds_of(2 * 4000 * (n - 1) / n - 1);
  expect_no_earlier(3 * each, [&] {
    std::vector<std::unique_ptr<Request>> requests;
    for (Tensor& tensor : data) requests.push_back(comm->start_all_reduce(tensor.view(), Reduce::kSum));
    for (std::size_t i = requests.size(); i-- > 0;) requests[i]->wait();
  });
  const auto totals = comm->totals();
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].group, "world");
  EXPECT_EQ(totals[0].num_transfers, comm->size() > 1 ? 3 : 0);
  EXPECT_NEAR(totals[0].injected_s, comm->size() > 1 ? 3 * each : 0, 1e-4);
}

TEST(Delayed, WhatComputationCoversIsNotWaitedFor) {
  const auto comm = slow_world();
  Tensor data(DType::kF32, 1000);
  const auto request = comm->start_all_reduce(data.view(), Reduce::kSum);
  for (const Timer computing; computing.seconds() < 0.05;) comm->poll();
  while (!request->test()) continue;
  request->wait();
  EXPECT_EQ(sum(comm->totals(), &DelayTotals::waited_s), 0);
  // On a busy machine the real transfer may take longer than the link: then the link is not what is waited for.
  double waited = 0;
  for (int i = 0; i < 50 && waited == 0; ++i) {
    comm->all_reduce(data.view(), Reduce::kSum);
    waited = sum(comm->totals(), &DelayTotals::waited_s);
    world().all_reduce({reinterpret_cast<std::byte*>(&waited), DType::kF64, {1}}, Reduce::kMin);  // all stop together
  }
  EXPECT_EQ(waited > 0, comm->size() > 1);
}

TEST(Delayed, GroupsMadeFromItHaveLinksByTheirNames) {
  const auto comm = make_delayed_communicator(world(), [](std::string_view group) { return Link{.latency_s = group == "slow" ? 0.02 : 0.0}; });
  std::vector<Index> members;
  for (Index m = comm->size(); m-- > 0;) members.push_back(m);
  const auto slow = comm->subgroup(members, "slow"), fast = comm->split(0, comm->rank(), "fast"), node = comm->split_by_node();
  expect_no_earlier(0.02, [&] { slow->barrier(); });
  fast->barrier();
  node->barrier();
  std::vector<std::string> names;
  for (const DelayTotals& group : comm->totals()) {
    names.push_back(group.group);
    EXPECT_NEAR(group.injected_s, group.group == "slow" && comm->size() > 1 ? 0.02 : 0, 1e-6) << group.group;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"world", "slow", "fast", "node"}));
}

TEST(Delayed, LinksThatCannotBeAreRefused) {
  for (const Link link : {Link{.latency_s = -1}, Link{.bytes_per_s = 0}, Link{.bytes_per_s = std::nan("")}})
    EXPECT_THROW((void)make_delayed_communicator(world(), [&](std::string_view) { return link; }), ConfigError);
}

}  // namespace
}  // namespace optimus::test
