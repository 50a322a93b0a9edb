// Backward in two parts gives the bits of backward in one, whatever happens between the parts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

struct Case {
  std::string model, backend, implementation;
  DType dtype;
  [[nodiscard]] std::string name() const { return fmt::format("{}_{}_{}_{}", model, backend, implementation, dtype_name(dtype)); }
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name(); }
};

class SplitBackward : public testing::TestWithParam<Case> {
 protected:
  static constexpr Index kMicroBatches = 3, kLength = 11;

  [[nodiscard]] static TransformerOptions options(const RecomputeConfig& recompute) {
    const Case& c = GetParam();
    TransformerOptions options{
        .model = c.model == "dense" ? test::small_dense() : test::small_moe(), .moe = {}, .recompute = recompute, .weights = c.dtype, .gradients = DType::kF32};
    options.model.clip_qkv = 0.9;
    options.moe.implementation = c.implementation;
    options.micro_batch = 1;
    options.sequence_length = kLength;
    options.slots = kMicroBatches;
    return options;
  }

  struct Run {
    std::string gradients;
    double loss = 0, aux_loss = 0;
  };

  /// All forwards, then all backwards: in one part, or all first parts before the second ones. Temporaries of one micro-batch fall on those of the others.
  [[nodiscard]] static Run run(TransformerOptions options, bool is_split) {
    options.splits_backward = is_split;
    const test::Rows rows = test::random_rows(options.model, kMicroBatches, kLength);
    const LossScale scale = test::scale_of(rows, 0.01, 0.001);
    const auto backend = test::make_backend(GetParam().backend);
    test::Parameters parameters(options.model, options.weights, options.gradients);
    parameters.initialize(11);
    Transformer transformer(options, *backend);
    transformer.bind(parameters.weights(), parameters.gradients());
    Run run;
    for (int step = 0; step < 2; ++step) {
      for (Index slot = 0; slot < kMicroBatches; ++slot) transformer.stage_forward(slot, rows.slice(slot, slot + 1).batch(), scale, {}, {});
      for (Index slot = 0; slot < kMicroBatches; ++slot) {
        const test::Rows own = rows.slice(slot, slot + 1);
        const auto result = is_split ? transformer.stage_backward_input(slot, own.batch(), scale, {}, {}, {})
                                     : transformer.stage_backward(slot, own.batch(), scale, {}, {}, {});
        run.loss += result.lm_loss_sum;
        run.aux_loss += result.aux_loss;
      }
      for (Index slot = 0; is_split && slot < kMicroBatches; ++slot) transformer.stage_backward_weight(slot);
    }
    run.gradients = parameters.gradient_bytes();
    return run;
  }
};

TEST_P(SplitBackward, GivesTheSameBitsWithEveryRecomputation) {
  const Run whole = run(options({}), false);
  for (int subset = 0; subset < 8; ++subset) {
    const Run split = run(options({.norm = (subset & 1) != 0, .attention = (subset & 2) != 0, .moe = (subset & 4) != 0}), true);
    EXPECT_TRUE(split.gradients == whole.gradients) << "norm, attention, moe = " << subset;
    EXPECT_EQ(split.loss, whole.loss);
    EXPECT_EQ(split.aux_loss, whole.aux_loss);
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    all.push_back({"dense", "cpu", "fast", dtype});
    all.push_back({"moe", "cpu", "fast", dtype});
    all.push_back({"moe", "cpu", "reference", dtype});
  }
  all.push_back({"moe", "ref", "fast", DType::kF32});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, SplitBackward, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name(); });

/// A model of two layers in slots for two micro-batches.
struct Small {
  explicit Small(bool splits_backward) {
    options = {.model = test::small_moe(), .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = 5};
    options.splits_backward = splits_backward;
    parameters.initialize(3);
    transformer.emplace(options, *backend);
    transformer->bind(parameters.weights(), parameters.gradients());
  }
  TransformerOptions options;
  std::unique_ptr<Backend> backend = test::make_backend("cpu");
  test::Parameters parameters{test::small_moe(), DType::kF32, DType::kF32};
  std::optional<Transformer> transformer;
};

TEST(SplitBackwardHooks, TellOfLayersInTheSecondPart) {
  Small small(true);
  std::vector<Index> told;
  int polls = 0;
  small.transformer->set_hooks({.before_forward = {}, .after_backward = [&](Index layer) { told.push_back(layer); }, .poll = [&] { ++polls; }});
  const test::Rows rows = test::random_rows(small.options.model, 1, 5);
  small.transformer->stage_forward(0, rows.batch(), test::scale_of(rows), {}, {});
  small.transformer->stage_backward_input(0, rows.batch(), test::scale_of(rows), {}, {}, {});
  EXPECT_TRUE(told.empty());
  const int polls_before = polls;
  small.transformer->stage_backward_weight(0);
  EXPECT_EQ(told, (std::vector<Index>{2, 1, 0, -1}));
  EXPECT_GE(polls, polls_before + 2 * 7) << "between the seven products of each layer";
}

TEST(SplitBackwardHooks, PollBetweenTheProductsOfABlock) {
  Small small(false);
  int polls = 0;
  small.transformer->set_hooks({.before_forward = {}, .after_backward = {}, .poll = [&] { ++polls; }});
  const test::Rows rows = test::random_rows(small.options.model, 1, 5);
  small.transformer->forward_backward(rows.batch(), test::scale_of(rows), {});
  EXPECT_GE(polls, 2 * 3 * 7) << "three products with each weight of each layer";
}

TEST(SplitBackward, NeedsMemoryForIt) {
  Small small(false);
  const test::Rows rows = test::random_rows(small.options.model, 1, 5);
  small.transformer->stage_forward(0, rows.batch(), test::scale_of(rows), {}, {});
  EXPECT_THROW(small.transformer->stage_backward_input(0, rows.batch(), test::scale_of(rows), {}, {}, {}), InternalError);
  TransformerOptions options = small.options;
  const Index whole = plan_activations(options).bytes;
  options.splits_backward = true;
  EXPECT_GT(plan_activations(options).bytes, whole);
}

}  // namespace
}  // namespace optimus
