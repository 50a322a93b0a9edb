#include "optimus/optim/sharded_optimizer.hpp"

#include <cstring>
#include <limits>

#include "optimus/ops/misc.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

ShardedOptimizer::Options options(const std::string& name, const std::string& sharding, const std::string& weights = "fp32", Index ep = 1) {
  ShardedOptimizer::Options o;
  o.optimizer.name = name;
  o.precision.weights = weights;
  o.parallel.optimizer_sharding = sharding;
  o.parallel.ep = ep;
  o.parallel.bucket_elements = 200;  // several buckets
  return o;
}

std::vector<float> weights_after(const ShardedOptimizer::Options& o, Index steps) {
  Fixture f(odd_specs(), o);
  for (Index step = 1; step <= steps; ++step) (void)f.step(step, 0.01);
  return f.all_weights();
}

TEST(ShardedOptimizer, MatchesATextbookOptimizerInDouble) {
  for (const char* name : {"adamw", "sgd"}) {
    for (const char* sharding : {"epso", "so", "none"}) {
      const auto o = options(name, sharding);
      Fixture f(odd_specs(), o);
      Textbook textbook(f.specs, o.optimizer);
      for (Index step = 1; step <= 5; ++step) {
        const double norm = textbook.step(step, 0.01);
        const UpdateResult result = f.step(step, 0.01);
        EXPECT_TRUE(result.is_finite);
        EXPECT_NEAR(result.grad_norm, norm, 1e-6 * norm);
        EXPECT_NEAR(result.clip_coefficient, 1.0 / norm, 1e-6);
      }
      EXPECT_EQ(f.optimizer.adam_step(), 5);
      for (std::size_t s = 0; s < f.specs.size(); ++s)
        for (Index i = 0; i < f.specs[s].shape.count(); ++i)
          EXPECT_NEAR(f.weight(s, i), textbook.weights[f.specs[s].name][static_cast<std::size_t>(i)], 2e-6) << name << sharding << f.specs[s].name << i;
    }
  }
}

TEST(ShardedOptimizer, GivesTheSameBytesHoweverStatesAreDividedAndOverlapped) {
  for (const char* name : {"adamw", "sgd"}) {
    for (const char* weights : {"fp32", "bf16"}) {
      auto o = options(name, "none", weights);
      o.optimizer.clip_norm = 0;  // the norm itself may differ in its last bit: it is summed over other shards
      const auto expected = weights_after(o, 4);
      for (const char* sharding : {"so", "epso"}) {
        for (const bool overlap : {false, true}) {
          o.parallel.optimizer_sharding = sharding;
          o.parallel.overlap = overlap;
          EXPECT_EQ(weights_after(o, 4), expected) << name << " " << weights << " " << sharding;
        }
      }
    }
  }
}

/// Four experts of one element with gradients 2, 4, 6, 8 and one element that every rank holds with gradient 1: sqrt(1 + 4 + 16 + 36 + 64) = 11.
TEST(GradientNorm, CountsEveryElementOnceWhoeverHoldsIt) {
  const std::vector<ParamSpec> specs = {{.name = "shared", .shape = {1}}, {.name = "experts.{}.w", .shape = {4, 1}, .is_expert = true}};
  const Index world = test::world().size();
  for (const Index ep : {Index{1}, world}) {
    if (4 % ep != 0) continue;
    for (const char* sharding : {"epso", "so", "none"}) {
      Fixture f(specs, options("sgd", sharding, "fp32", ep));
      f.optimizer.zero_gradients();
      const Index copies_of_experts = f.mesh.dp();
      f.optimizer.gradients()[0].as<float>()[0] = 1.0F / static_cast<float>(world);
      const View experts = f.optimizer.gradients()[1];
      for (Index e = 0; e < experts.count(); ++e)
        experts.as<float>()[e] = 2.0F * static_cast<float>(f.global(1, e) + 1) / static_cast<float>(copies_of_experts);
      f.optimizer.reduce_gradients();
      const UpdateResult result = f.optimizer.update(0.1, true);
      EXPECT_NEAR(result.grad_norm, 11.0, 1e-6) << sharding << " ep " << ep;
      EXPECT_NEAR(result.clip_coefficient, 1.0 / 11.0, 1e-8);
    }
  }
}

TEST(GradientNorm, IsTheSameBitsOnAllRanks) {
  Fixture f(odd_specs(), options("adamw", "epso"));
  const double mine = f.step(1, 0.01).grad_norm;
  double largest = mine, smallest = mine;
  world().all_reduce(View(reinterpret_cast<std::byte*>(&largest), DType::kF64, {1}), Reduce::kMax);
  world().all_reduce(View(reinterpret_cast<std::byte*>(&smallest), DType::kF64, {1}), Reduce::kMin);
  EXPECT_EQ(largest, smallest);
}

TEST(ShardedOptimizer, DoesNotClipInTheWarmupOrBelowTheLimit) {
  auto o = options("sgd", "epso");
  Fixture f(odd_specs(), o);
  EXPECT_EQ(f.step(1, 0.01, false).clip_coefficient, 1.0);
  o.optimizer.clip_norm = 1e6;
  Fixture g(odd_specs(), o);
  EXPECT_EQ(g.step(1, 0.01).clip_coefficient, 1.0);
}

TEST(ShardedOptimizer, ChangesNothingWhenAGradientIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* sharding : {"epso", "none"}) {
      Fixture f(odd_specs(), options("adamw", sharding, "bf16"));
      (void)f.step(1, 0.01);
      const float before = f.weight(4, 3);
      f.fill_gradients(2);
      const bool is_culprit = world().rank() == world().size() - 1;
      if (is_culprit) f.optimizer.gradients()[2].as<float>()[11] = bad;
      const auto found = f.optimizer.find_nonfinite_gradient();
      EXPECT_EQ(found ? found->name : "-", is_culprit ? "experts.{}.up" : "-");
      if (found) {
        EXPECT_EQ(found->is_nan, std::isnan(bad));
      }
      f.optimizer.reduce_gradients();
      const UpdateResult result = f.optimizer.update(0.01, true);
      EXPECT_FALSE(result.is_finite);
      EXPECT_FALSE(std::isfinite(result.grad_norm));
      EXPECT_EQ(f.weight(4, 3), before);
      EXPECT_EQ(f.optimizer.adam_step(), 1);
    }
  }
}

TEST(ShardedOptimizer, WithoutEpsWeightsWithoutGradientStay) {
  for (const char* sharding : {"epso", "none"}) {
    auto o = options("adamw", sharding);
    o.optimizer.eps = 0;
    o.optimizer.weight_decay = 0;
    Fixture f(odd_specs(), o);
    const float untouched = f.weight(0, 0), moved = f.weight(4, 3);
    f.fill_gradients(1);
    ops::fill_zero(*f.backend, f.optimizer.gradients()[0]);
    f.optimizer.reduce_gradients();
    (void)f.optimizer.update(0.01, true);
    f.optimizer.wait_weights();
    EXPECT_EQ(f.weight(0, 0), untouched) << sharding;
    EXPECT_NEAR(std::abs(f.weight(4, 3) - moved), 0.01, 1e-6) << sharding;  // the first step of AdamW: the sign of the gradient
  }
}

TEST(ShardedOptimizer, NamesTheRankWhoseOwnValuesAreSpoiltAndRepairsCopies) {
  for (const char* weights : {"fp32", "bf16"}) {
    Fixture f(odd_specs(), options("adamw", "epso", weights));
    const float before = f.weight(4, 3);
    EXPECT_FALSE(f.optimizer.find_nonfinite_master());
    if (world().rank() == world().size() - 1 && std::string(weights) == "bf16")
      f.optimizer.weights()[4].as<BFloat16>()[3] = BFloat16(std::numeric_limits<float>::quiet_NaN());
    EXPECT_FALSE(f.optimizer.find_nonfinite_master());
    f.optimizer.publish_weights(true);
    EXPECT_EQ(f.weight(4, 3), before);
    Index owners = 0;
    for (const Chunk& chunk : f.optimizer.state_chunks()) {
      if (chunk.name != "master.head" || chunk.flat_begin > 0 || chunk.data.count() == 0) continue;
      chunk.data.as<float>()[0] = std::numeric_limits<float>::infinity();
      ++owners;
    }
    const auto found = f.optimizer.find_nonfinite_master();
    EXPECT_EQ(found.has_value(), owners > 0);
    if (found) {
      EXPECT_EQ(found->name, "head");
      EXPECT_FALSE(found->is_nan);
    }
  }
}

TEST(ShardedOptimizer, StartsTheMasterFromUnroundedValues) {
  Fixture f(odd_specs(), options("adamw", "epso", "bf16"));
  Index checked = 0;
  for (const Chunk& chunk : f.optimizer.state_chunks()) {
    if (chunk.name != "master.head") continue;
    for (Index i = 0; i < chunk.data.count(); ++i, ++checked) EXPECT_EQ(chunk.data.as<float>()[i], static_cast<float>(number("head", chunk.flat_begin + i, 0)));
  }
  EXPECT_GT(checked, 0);
  EXPECT_EQ(f.weight(4, 20), static_cast<float>(BFloat16(static_cast<float>(number("head", 20, 0)))));
}

TEST(ShardedOptimizer, ThrowsOnAllRanksWhatFillingThrowsOnOne) {
  Fixture f(odd_specs(), options("adamw", "epso"));
  const auto fill = [](const ParamSpec&, const Box&, Index, View) {
    if (world().rank() == 0) throw CheckpointError("[test] unreadable");
  };
  EXPECT_THROW(f.optimizer.initialize(fill), CheckpointError);
}

/// States copied chunk by chunk into a fresh optimizer give the same future, to the bit.
TEST(ShardedOptimizer, ContinuesExactlyFromItsChunks) {
  for (const char* sharding : {"epso", "none"}) {
    const auto o = options("adamw", sharding, "bf16");
    Fixture a(odd_specs(), o), b(odd_specs(), o);
    (void)a.step(1, 0.01);
    (void)a.step(2, 0.01);
    const auto from = a.optimizer.state_chunks(), to = b.optimizer.state_chunks();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) std::memcpy(to[i].data.data(), from[i].data.data(), static_cast<std::size_t>(from[i].data.bytes()));
    b.optimizer.set_adam_step(a.optimizer.adam_step());
    b.optimizer.publish_weights(false);
    (void)a.step(3, 0.01);
    (void)b.step(3, 0.01);
    for (std::size_t s = 0; s < a.specs.size(); ++s)
      for (Index i = 0; i < a.optimizer.weights()[s].count(); ++i) ASSERT_EQ(a.weight(s, i), b.weight(s, i));
  }
}

TEST(ShardedOptimizer, WritesEachElementOnce) {
  for (const char* sharding : {"epso", "so", "none"}) {
    Fixture f(odd_specs(), options("adamw", sharding));
    std::int64_t counts[2] = {0, 0};
    for (const Chunk& chunk : f.optimizer.owned_state_chunks()) counts[0] += chunk.data.count();
    for (const Chunk& chunk : f.optimizer.owned_model_chunks()) counts[1] += chunk.data.count();
    world().all_reduce(View(reinterpret_cast<std::byte*>(counts), DType::kI64, {2}), Reduce::kSum);
    std::int64_t parameters = 0;
    for (const ParamSpec& spec : f.specs) parameters += spec.shape.count();
    EXPECT_EQ(counts[0], 4 * parameters);
    EXPECT_EQ(counts[1], parameters);
  }
}

TEST(ShardedOptimizer, UsesTheBytesItPlanned) {
  for (const char* sharding : {"epso", "so", "none"}) {
    for (const char* weights : {"fp32", "bf16"}) {
      const auto o = options("adamw", sharding, weights);
      Fixture f(odd_specs(), o);
      const auto real = f.optimizer.bytes(), plan = ShardedOptimizer::plan_bytes(f.specs, o, f.mesh, world().rank());
      EXPECT_EQ(real.weights, plan.weights);
      EXPECT_EQ(real.gradients, plan.gradients);
      EXPECT_EQ(real.master, plan.master);
      EXPECT_EQ(real.moments, plan.moments);
    }
  }
}

TEST(ShardedOptimizer, SumsBf16GradientsToOneRounding) {
  auto o = options("sgd", "epso");
  o.precision.gradients = "bf16";
  o.optimizer.clip_norm = 0;
  o.optimizer.weight_decay = 0;
  Fixture f(odd_specs(), o);
  (void)f.step(1, 1.0);
  for (Index i = 0; i < f.specs[4].shape.count(); ++i) EXPECT_NEAR(f.weight(4, i), number("head", i, 0) - number("head", i, 1), 1.5e-2);
}

}  // namespace
}  // namespace optimus::test
