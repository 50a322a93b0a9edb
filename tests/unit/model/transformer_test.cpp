// The transformer's contract: what it refuses, what it counts, what it shows.

#include "optimus/model/transformer.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "optimus/model/decoder.hpp"
#include "optimus/model/head.hpp"
#include "optimus/ops/loss.hpp"
#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

struct Fixture {
  explicit Fixture(const ModelConfig& model, Index micro_batch = 2, Index sequence_length = 6, DType dtype = DType::kF32)
      : options{.model = model,
                .moe = {},
                .recompute = {},
                .weights = dtype,
                .gradients = dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                .micro_batch = micro_batch,
                .sequence_length = sequence_length},
        backend(test::make_backend("ref")),
        parameters(model, dtype, options.gradients),
        rows(test::random_rows(model, micro_batch, sequence_length)) {
    parameters.initialize(23);
  }
  [[nodiscard]] Transformer make() {
    Transformer transformer(options, *backend);
    transformer.bind(parameters.weights(), parameters.gradients());
    return transformer;
  }
  TransformerOptions options;
  std::unique_ptr<Backend> backend;
  test::Parameters parameters;
  test::Rows rows;
};

/// The message of the error that `call` ends with.
template <class Expected, class Call> std::string message_of(Call call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error of the expected kind";
  return {};
}

TEST(Transformer, NamesIdsOutsideTheVocabulary) {
  Fixture f(test::small_moe());
  Transformer transformer = f.make();
  f.rows.inputs[8] = 37;
  EXPECT_NE(message_of<DataError>([&] { transformer.forward(f.rows.batch()); }).find("token id 37 at position 2 of sequence 1 is outside the vocabulary of 37"),
            std::string::npos);
  f.rows.inputs[8] = -100;
  EXPECT_THROW(transformer.forward(f.rows.batch()), DataError);
  f.rows.inputs[8] = 0;
  f.rows.labels[0] = -1;
  EXPECT_NE(message_of<DataError>([&] { transformer.forward_backward(f.rows.batch(), {}, {}); }).find("label -1 at position 0 of sequence 0"),
            std::string::npos);
}

TEST(Transformer, RefusesMoreRowsThanPlannedFor) {
  Fixture f(test::small_dense());
  Transformer transformer = f.make();
  const test::Rows many = test::random_rows(f.options.model, 3, 6), wide = test::random_rows(f.options.model, 1, 7);
  EXPECT_THROW(transformer.forward(many.batch()), ShapeError);
  EXPECT_THROW(transformer.forward(wide.batch()), ShapeError);
  EXPECT_THROW(transformer.forward({.sequences = 2, .sequence_length = 6, .inputs = f.rows.inputs, .labels = {}}), ShapeError);
}

TEST(Transformer, RefusesSequencesBeyondItsPositionsAndTypesWithoutKernels) {
  Fixture f(test::small_moe());
  f.options.sequence_length = 65;
  EXPECT_NE(message_of<ConfigError>([&] { (void)f.make(); }).find("max_position_embeddings = 64"), std::string::npos);
  f.options.sequence_length = 64;
  f.options.micro_batch = Index{1} << 25;
  EXPECT_NE(message_of<ConfigError>([&] { (void)f.make(); }).find("make the micro-batch smaller"), std::string::npos);
  f.options.micro_batch = 2;
  f.options.sequence_length = 6;
  f.options.weights = DType::kF64;
  const auto cpu = test::make_backend("cpu");
  EXPECT_THROW(Transformer(f.options, *cpu), UnsupportedError);
  f.options.moe.implementation = "slow";
  EXPECT_THROW((void)f.make(), ConfigError);
}

TEST(Transformer, NamesParametersThatDoNotFit) {
  Fixture f(test::small_moe());
  Transformer transformer(f.options, *f.backend);
  std::vector<View> weights = f.parameters.weights();
  weights[2] = weights[2].reshaped({weights[2].count()});
  EXPECT_NE(message_of<ShapeError>([&] { transformer.bind(weights, {}); }).find("model.layers.0.self_attn.q_proj.weight"), std::string::npos);
  weights.pop_back();
  EXPECT_THROW(transformer.bind(weights, {}), ShapeError);
}

TEST(Transformer, CountsTheRowsOfEveryExpert) {
  Fixture f(test::small_moe());
  f.options.moe.aux_loss_scope = "sequence";  // counted by sequence, reported together
  Transformer transformer = f.make();
  transformer.forward(f.rows.batch());
  ASSERT_EQ(transformer.expert_counts().size(), 10U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    std::int64_t sum = 0;
    for (std::size_t e = 0; e < 5; ++e) sum += transformer.expert_counts()[layer * 5 + e];
    EXPECT_EQ(sum, 2 * 6 * 2);
  }
  Fixture dense(test::small_dense());
  EXPECT_TRUE(dense.make().expert_counts().empty());
}

TEST(Transformer, GivesNoGradientFromRowsWithoutLabels) {
  Fixture f(test::small_dense());
  Transformer transformer = f.make();
  std::fill(f.rows.labels.begin(), f.rows.labels.end(), ops::kIgnoredLabel);
  const auto result = transformer.forward_backward(f.rows.batch(), {.lm = 0.1}, {});
  EXPECT_EQ(result.valid_labels, 0);
  EXPECT_EQ(result.lm_loss_sum, 0.0);
  for (std::size_t i = 0; i < f.parameters.specs().size(); ++i) {
    for (const double value : f.parameters.gradient(i)) ASSERT_EQ(value, 0.0) << f.parameters.specs()[i].name;
  }
}

TEST(Transformer, AddsToGradients) {
  Fixture f(test::small_moe(), 2, 6, DType::kF64);
  Transformer transformer = f.make();
  transformer.forward_backward(f.rows.batch(), test::scale_of(f.rows), {});
  std::vector<std::vector<double>> once;
  for (std::size_t i = 0; i < f.parameters.specs().size(); ++i) once.push_back(f.parameters.gradient(i));
  transformer.forward_backward(f.rows.batch(), test::scale_of(f.rows), {});
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (double& value : once[i]) value *= 2;
    test::expect_near(f.parameters.specs()[i].name, f.parameters.gradient(i), once[i], 1e-13);
  }
}

TEST(Transformer, ForwardAloneNeedsLessMemoryAndGivesTheSameLosses) {
  Fixture f(test::small_moe());
  Transformer both = f.make();
  const auto trained = both.forward_backward(f.rows.batch(), test::scale_of(f.rows), {});
  f.options.has_backward = false;
  Transformer transformer(f.options, *f.backend);
  transformer.bind(f.parameters.weights(), {});
  const auto result = transformer.forward(f.rows.batch());
  EXPECT_EQ(result.lm_loss_sum, trained.lm_loss_sum);
  EXPECT_EQ(result.aux_loss, trained.aux_loss);
  EXPECT_EQ(result.z_loss, trained.z_loss);
  EXPECT_LT(transformer.arena_bytes(), both.arena_bytes());
}

TEST(Head, NeverHoldsTheLogitsOfAllRows) {
  for (const Index rows : {2048, 8192}) {
    for (const Index vocab : {2048, 50304}) {
      const Index block = logits_block_rows(rows, vocab);
      EXPECT_LE(2 * block, rows);
      EXPECT_LE(block * vocab, (Index{1} << 22) + 64 * vocab);
      EXPECT_EQ(block % 64, 0);
    }
  }
  EXPECT_EQ(logits_block_rows(1, 50304), 1);
  EXPECT_EQ(logits_block_rows(17, 50304), 17);

  ModelConfig model = test::small_dense();
  model.vocab_size = 50304;
  model.max_position_embeddings = 4096;
  const TransformerOptions options{.model = model, .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = 4096};
  EXPECT_LT(plan_activations(options).bytes, 4096 * Index{50304} * 4 / 16);
}

TEST(Attention, NeverHoldsAllScores) {
  ModelConfig model = test::small_dense();
  model.max_position_embeddings = 4096;
  const TransformerOptions options{.model = model, .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = 4096};
  EXPECT_LT(plan_activations(options).bytes, Index{4096} * 4096 * 4 / 4) << "one head's scores alone have four times as much";
}

TEST(Plan, OfTheLargestPresetIsMadeInAMoment) {
  Problems problems;
  const ModelConfig model = resolve_model({.preset = "mula-220b-a10b"}, problems);
  const auto start = std::chrono::steady_clock::now();
  const ActivationPlan plan = plan_activations(
      {.model = model, .moe = {}, .recompute = {}, .weights = DType::kBF16, .gradients = DType::kF32, .micro_batch = 1, .sequence_length = 2048});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << "no work in proportion to the model";
  const double tokens = 2048, model_flops = train_flops_per_token(model, 2048) * tokens;
  EXPECT_NEAR(plan.gemm_flops + plan.attention_flops, model_flops, 0.02 * model_flops);
  EXPECT_GT(plan.bytes, 64 * Index{2048} * 3072 * 2);
}

TEST(Plan, CountsTheSameWorkForBothImplementations) {
  TransformerOptions options{.model = test::small_moe(), .moe = {}, .recompute = {}, .micro_batch = 2, .sequence_length = 9};
  const ActivationPlan fast = plan_activations(options);
  options.moe.implementation = "reference";
  EXPECT_EQ(plan_activations(options).gemm_flops, fast.gemm_flops);
}

TEST(Plan, OfSharedExpertsCountsTheWorkOfAnEvenShareAndTheMemoryOfTheWorst) {
  TransformerOptions options{.model = test::small_moe(), .moe = {}, .recompute = {}, .micro_batch = 2, .sequence_length = 32};
  options.model.num_experts = 4;
  const ActivationPlan alone = plan_activations(options);
  options.split = {.tp = 1, .tp_rank = 0, .ep = 4, .ep_rank = 1};
  for (const char* implementation : {"fast", "reference"}) {
    for (const char* dispatcher : {"all_gather", "all_to_all"}) {
      options.moe.implementation = implementation;
      options.moe.dispatcher = dispatcher;
      const ActivationPlan shared = plan_activations(options);
      EXPECT_EQ(shared.gemm_flops, alone.gemm_flops) << implementation << ", " << dispatcher;
      // Rows of four ranks with one expert each, instead of own rows with two choices each: x, gate and up of twice as many slots.
      const Index slot = (options.model.hidden_size + 2 * options.model.intermediate_size) * 4, rows = 2 * 32;
      EXPECT_GT(shared.bytes, alone.bytes + options.model.num_hidden_layers * (4 * rows - 2 * rows) * slot) << implementation << ", " << dispatcher;
    }
  }
}

}  // namespace
}  // namespace optimus
