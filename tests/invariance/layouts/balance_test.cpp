// What the balancing loss adds to the router's gradient, in layouts that cut the same rows differently; and experts that nobody chose.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/invariance/layouts/comparison.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {
namespace {

constexpr const char* kText = R"(
[model]
vocab_size = 64
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 4
intermediate_size = 16
num_experts = 8
num_experts_per_tok = 2
[data]
sequence_length = 16
[precision]
weights = "fp32"
[optimizer]
name = "sgd"
lr = 0.0
clip_norm = 0.0
)";

/// What a coefficient adds to the gradients.
Tensors added(const Tensors& with, const Tensors& without) {
  Tensors sum;
  for (const auto& [name, values] : with) {
    if (name.find("mlp.gate.weight") == std::string::npos) continue;
    auto& difference = sum[name];
    for (std::size_t i = 0; i < values.size(); ++i) difference.push_back(values[i] - without.at(name)[i]);
  }
  return sum;
}

Tensors scaled(Tensors tensors, float factor) {
  for (auto& [name, values] : tensors) {
    for (float& value : values) value *= factor;
  }
  return tensors;
}

Tensors router_gradient(const Layout& layout, Index global_batch, double coefficient, const std::vector<std::string>& more) {
  auto settings = more;
  settings.push_back("batch.global_batch=" + std::to_string(global_batch));
  settings.push_back("moe.aux_loss_coefficient=" + std::to_string(coefficient));
  return train_in(layout, kText, settings, 1, Ids::kSameSequenceAlways).gradients;
}

/// (micro-batch, accumulation, DP, PP) of eight equal sequences in all but the fourth, whose global batch is the same too.
TEST(BalanceOfLayouts, ItsGradientIsLinearInTheCoefficientAndTheSameInEveryCut) {
  struct Cut {
    Index micro_batch, accumulation, dp, pp;
  };
  Tensors expected;
  for (const Cut& cut : {Cut{8, 1, 1, 1}, Cut{4, 2, 1, 1}, Cut{1, 8, 1, 1}, Cut{4, 1, 2, 1}, Cut{1, 2, 4, 1}, Cut{2, 4, 1, 2}}) {
    const Index global_batch = cut.micro_batch * cut.accumulation * cut.dp;
    if (cut.dp * cut.pp > world().size()) continue;
    for (const std::string recompute : {"recompute={}", "recompute={norm=true, attention=true, moe=true}"}) {
      const Layout layout{.dp = cut.dp, .pp = cut.pp, .micro_batch = cut.micro_batch, .settings = {recompute}};
      SCOPED_TRACE(layout.str());
      const Tensors none = router_gradient(layout, global_batch, 0, {}), one = router_gradient(layout, global_batch, 1, {}),
                    two = router_gradient(layout, global_batch, 2, {});
      world().barrier();
      if (world().rank() > 0) continue;
      const Tensors once = added(one, none);
      ASSERT_EQ(once.size(), 2U) << "a router in each layer";
      for (const auto& [name, values] : once) {
        double largest = 0;
        for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
        EXPECT_GT(largest, 1e-4) << name;
      }
      expect_tensors("twice the coefficient", added(two, none), scaled(once, 2), 1e-4);
      if (expected.empty()) expected = once;
      expect_tensors("balancing gradient", once, expected, 1e-4);
    }
  }
}

/// Few rows and one choice each: most experts have none, and some ranks neither.
TEST(IdleExperts, KeepZeroGradientsAndOnlyDecayInEveryLayout) {
  const std::vector<std::string> settings = {"model.num_experts_per_tok=1", "data.sequence_length=2", "batch.global_batch=4",
                                             "optimizer.name=adamw",        "optimizer.lr=1e-3",      "optimizer.weight_decay=0.1"};
  constexpr Index kSteps = 5;
  Outcome expected;
  if (world().rank() == 0) expected = train_alone(kText, settings, kSteps, Ids::kSameSequenceAlways);
  for (const Layout& layout :
       {Layout{}, Layout{.ep = 2}, Layout{.ep = 4}, Layout{.dp = 2, .ep = 2}, Layout{.dp = 2, .settings = {"parallel.optimizer_sharding=none"}},
        Layout{.tp = 2}, Layout{.tp = 2, .ep = 2, .pp = 2}, Layout{.ep = 2, .settings = {"moe.dispatcher=all_to_all"}},
        Layout{.dp = 2, .ep = 2, .pp = 2, .settings = {"parallel.optimizer_sharding=so"}}}) {
    if (layout.ranks() > world().size()) continue;
    SCOPED_TRACE(layout.str());
    const Outcome actual = train_in(layout, kText, settings, kSteps, Ids::kSameSequenceAlways);
    world().barrier();
    if (world().rank() > 0) continue;
    EXPECT_EQ(actual.expert_counts, expected.expert_counts);
    Index idle = 0;
    for (Index layer = 0; layer < 2; ++layer) {
      for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string name = "model.layers." + std::to_string(layer) + ".mlp.experts.{}." + projection + ".weight";
        const auto &gradient = actual.gradients.at("grad." + name), &initial = actual.initial.at("model." + name),
                   &weights = actual.weights.at("model." + name);
        const std::size_t size = gradient.size() / 8;
        for (std::size_t expert = 0; expert < 8; ++expert) {
          if (actual.expert_counts[static_cast<std::size_t>(layer) * 8 + expert] > 0) continue;
          ++idle;
          for (std::size_t i = expert * size; i < (expert + 1) * size; ++i) {
            ASSERT_EQ(gradient[i], 0.0F) << name << " " << i;
            ASSERT_EQ(weights[i], expected.weights.at("model." + name)[i]) << name << " " << i;
            ASSERT_NEAR(weights[i], initial[i] * std::pow(1 - 1e-4, 5), 1e-6 * std::abs(initial[i])) << name << " " << i;
          }
        }
      }
    }
    EXPECT_GE(idle, 6) << "the case must have experts without rows";
  }
}

/// The same ranks twice: the same bits.
TEST(Repetition, GivesTheSameBits) {
  const Layout layout = world().size() >= 8 ? Layout{.tp = 2, .ep = 2, .pp = 2} : Layout{.dp = 2};
  const std::vector<std::string> settings = {"batch.global_batch=8", "optimizer.lr=0.1", "precision.weights=bf16"};
  const Outcome first = train_in(layout, kText, settings, 4), second = train_in(layout, kText, settings, 4);
  EXPECT_EQ(first.lm_loss, second.lm_loss);
  EXPECT_EQ(first.grad_norm, second.grad_norm);
  EXPECT_EQ(first.weights, second.weights);
  if (world().rank() == 0) {
    EXPECT_FALSE(first.weights.empty());
  }
}

}  // namespace
}  // namespace optimus::test
