// Transfers during backward and forward: the same bytes, whatever happens when.
#include <chrono>
#include <limits>
#include <random>
#include <thread>

#include "optimus/comm/delayed/delayed.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

ShardedOptimizer::Options options(const ParallelConfig& layout, bool overlap, Index bucket_elements = 150) {
  ShardedOptimizer::Options o;
  o.precision.weights = "bf16";
  o.parallel = layout;
  o.parallel.overlap = overlap;
  o.parallel.bucket_elements = bucket_elements;
  return o;
}

/// A step with gradients filled and reported layer by layer, `num_reported` of them.
UpdateResult overlapped_step(Fixture& f, Index step, std::size_t num_reported) {
  std::mt19937 random(static_cast<unsigned>(100 * step + world().rank()));
  f.optimizer.zero_gradients();
  for (const Index layer : layers_in_backward(f.specs)) {
    for (std::size_t s = 0; s < f.specs.size(); ++s)
      if (f.specs[s].layer == layer) f.fill_gradient(s, step);
    // Ranks are never equally fast.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    for (unsigned i = random() % 3; i > 0; --i) f.optimizer.poll();
    if (num_reported > 0) f.optimizer.gradients_complete(layer);
    if (num_reported > 0) --num_reported;
  }
  EXPECT_FALSE(f.optimizer.find_nonfinite_gradient());
  f.optimizer.reduce_gradients();
  return f.optimizer.update(0.01, true);
}

TEST(Overlap, GivesTheSameBytesInEveryLayout) {
  for (const auto& [layout, groups] : all_layouts()) {
    Fixture plain(model_specs(), options(layout, false), groups);
    Fixture all(model_specs(), options(layout, true), groups), some(model_specs(), options(layout, true), groups);
    for (Index step = 1; step <= 2; ++step) {
      const double norm = overlapped_step(plain, step, 99).grad_norm;
      EXPECT_EQ(overlapped_step(all, step, 99).grad_norm, norm);
      EXPECT_EQ(overlapped_step(some, step, step == 1 ? 2 : 0).grad_norm, norm);
      for (Fixture* f : {&all, &some}) {
        f->optimizer.wait_weights();
        ASSERT_EQ(f->all_weights(), plain.all_weights()) << name_of(layout);
      }
    }
  }
}

TEST(Overlap, GivesTheSameBytesForAnyBucketSizeWithoutClipping) {
  auto o = options({}, true, 1);
  o.optimizer.clip_norm = 0;
  Fixture one_each(model_specs(), o);
  o.parallel.bucket_elements = Index{1} << 25;
  Fixture one_for_all(model_specs(), o);
  for (Index step = 1; step <= 2; ++step) {
    (void)overlapped_step(one_each, step, 99);
    (void)overlapped_step(one_for_all, step, 99);
  }
  one_each.optimizer.wait_weights();
  one_for_all.optimizer.wait_weights();
  EXPECT_EQ(one_each.all_weights(), one_for_all.all_weights());
}

TEST(Overlap, FindsASpoiltGradientThatItsTransferOverwrites) {
  for (const bool overlap : {false, true}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Fixture f(model_specs(), options({}, overlap));
      const std::vector<float> before = f.all_weights();
      f.fill_gradients(1);
      const bool is_culprit = world().rank() == world().size() - 1;
      for (const char* name : {"3.q", "0.k"})
        if (is_culprit) f.optimizer.gradients()[f.find(name)].as<float>()[7] = bad;
      for (const Index layer : layers_in_backward(f.specs)) f.optimizer.gradients_complete(layer);
      for (int i = 0; i < 50; ++i) f.optimizer.poll();
      const auto found = f.optimizer.find_nonfinite_gradient();
      EXPECT_EQ(found ? found->name : "-", is_culprit ? "3.q" : "-") << "the one that backward met first";
      if (found) {
        EXPECT_EQ(found->is_nan, std::isnan(bad));
      }
      f.optimizer.reduce_gradients();
      EXPECT_FALSE(f.optimizer.update(0.01, true).is_finite);
      EXPECT_EQ(f.all_weights(), before);
      EXPECT_TRUE(f.step(2, 0.01).is_finite) << "the next step knows nothing of it";
      EXPECT_FALSE(f.optimizer.find_nonfinite_gradient());
    }
  }
}

/// A rank whose gradients were spoilt on purpose, or looked at, may not have reported any layer.
TEST(Overlap, AStepCanBeGivenUpHowEverFarEachRankHasCome) {
  for (const bool overlap : {false, true}) {
    Fixture f(model_specs(), options({}, overlap)), expected(model_specs(), options({}, false));
    f.fill_gradients(7);
    for (const Index layer : layers_in_backward(f.specs))
      if (layer >= 2 * world().rank()) f.optimizer.gradients_complete(layer);
    f.optimizer.discard_gradients();
    EXPECT_THROW((void)f.optimizer.update(0.01, true), InternalError);
    (void)overlapped_step(f, 1, 99);
    (void)overlapped_step(expected, 1, 99);
    f.optimizer.wait_weights();
    EXPECT_EQ(f.all_weights(), expected.all_weights());
  }
}

TEST(Overlap, RefusesAStepAfterOneThatWasLeftHalfWay) {
  Fixture f(model_specs(), options({}, true));
  f.fill_gradients(1);
  for (const Index layer : layers_in_backward(f.specs)) f.optimizer.gradients_complete(layer);
  EXPECT_THROW(f.optimizer.zero_gradients(), InternalError);
  f.optimizer.discard_gradients();
  f.optimizer.zero_gradients();
}

TEST(Overlap, RefusesALayerThatIsCompleteTwice) {
  Fixture f(model_specs(), options({}, true));
  f.fill_gradients(1);
  f.optimizer.gradients_complete(2);
  EXPECT_THROW(f.optimizer.gradients_complete(2), InternalError);
  f.optimizer.gradients_complete(77);  // of another rank's
  f.optimizer.discard_gradients();
}

TEST(Overlap, BringsTheWeightsOfALayerBeforeTheyAreRead) {
  // 2 ms a transfer: they are still under way when update() returns.
  const auto slow = make_delayed_communicator(world(), [](std::string_view) { return Link{.latency_s = 2e-3}; });
  auto o = options({}, true, 1);
  Fixture f(model_specs(), o, *slow), expected(model_specs(), options({}, false));
  for (Index step = 1; step <= 2; ++step) {
    (void)overlapped_step(f, step, 99);
    (void)overlapped_step(expected, step, 99);
    for (Index layer = -1; layer <= 4; ++layer) {
      f.optimizer.wait_weights(layer);
      for (std::size_t s = 0; s < f.specs.size(); ++s) {
        if (f.specs[s].layer != layer) continue;
        for (Index i = 0; i < f.optimizer.weights()[s].count(); ++i) ASSERT_EQ(f.weight(s, i), expected.weight(s, i)) << f.specs[s].name;
      }
    }
  }
}

TEST(Overlap, ReadsOfWholeWeightsWaitThemselves) {
  const auto slow = make_delayed_communicator(world(), [](std::string_view) { return Link{.latency_s = 2e-3}; });
  Fixture f(model_specs(), options({}, true, 1), *slow), expected(model_specs(), options({}, false));
  (void)overlapped_step(expected, 1, 99);
  (void)overlapped_step(f, 1, 99);
  EXPECT_FALSE(f.optimizer.find_nonfinite_weight());
  EXPECT_EQ(f.all_weights(), expected.all_weights());
  (void)overlapped_step(f, 2, 99);
  (void)overlapped_step(expected, 2, 99);
  f.optimizer.publish_weights(true);
  EXPECT_EQ(f.all_weights(), expected.all_weights());
}

/// One transfer for each bucket: what `parallel.bucket_elements` decides.
TEST(Overlap, BucketElementsDecideHowManyTransfersThereAre) {
  if (world().size() == 1) return;  // nobody to send to
  std::vector<Index> transfers;
  for (const Index bucket_elements : {Index{1}, Index{150}, Index{1} << 25}) {
    const auto counting = make_delayed_communicator(world(), [](std::string_view) { return Link{}; });
    Fixture f(model_specs(), options({}, true, bucket_elements), *counting);
    (void)overlapped_step(f, 1, 99);
    f.optimizer.wait_weights();
    Index count = 0;
    for (const DelayTotals& totals : counting->totals()) count += totals.group == "dp" || totals.group == "dp_ep" ? totals.num_transfers : 0;
    transfers.push_back(count);
  }
  const Index parameters = static_cast<Index>(model_specs().size());
  EXPECT_EQ(transfers[0], 3 * parameters) << "initial weights, gradients, weights";
  EXPECT_LT(transfers[1], transfers[0]);
  EXPECT_GT(transfers[1], transfers[2]);
  EXPECT_EQ(transfers[2], 3 * 2) << "experts and all else";
}

TEST(Overlap, SumsAllBucketsWhileBackwardLasts) {
  if (world().size() == 1) return;
  for (const bool overlap : {false, true}) {
    const auto counting = make_delayed_communicator(world(), [](std::string_view) { return Link{}; });
    Fixture f(model_specs(), options({}, overlap, 150), *counting);
    const auto num_transfers = [&] {
      Index count = 0;
      for (const DelayTotals& totals : counting->totals()) count += totals.group == "dp" || totals.group == "dp_ep" ? totals.num_transfers : 0;
      return count;
    };
    f.fill_gradients(1);
    const Index buckets = num_transfers();  // one each for the initial weights
    for (const Index layer : layers_in_backward(f.specs)) f.optimizer.gradients_complete(layer);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(overlap ? 20 : 0);
    do {
      f.optimizer.poll();
    } while (num_transfers() < 2 * buckets && std::chrono::steady_clock::now() < end);
    EXPECT_EQ(num_transfers(), overlap ? 2 * buckets : buckets);
    f.optimizer.reduce_gradients();
    EXPECT_EQ(num_transfers(), 2 * buckets);
  }
}

}  // namespace
}  // namespace optimus::test
