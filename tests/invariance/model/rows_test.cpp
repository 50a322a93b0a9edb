// What must not depend on how rows are cut into micro-batches, on the implementation, or on what lay in memory before.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

struct Training {
  explicit Training(const TransformerOptions& given, std::string_view backend_name = "ref")
      : options(given), backend(test::make_backend(backend_name)), parameters(given.model, given.weights, given.gradients), transformer(given, *backend) {
    parameters.initialize(17);
    transformer.bind(parameters.weights(), parameters.gradients());
  }
  TransformerOptions options;
  std::unique_ptr<Backend> backend;
  test::Parameters parameters;
  Transformer transformer;
};

void expect_same_gradients(const test::Parameters& got, const test::Parameters& want, double bound, double scale = 0) {
  for (std::size_t i = 0; i < got.specs().size(); ++i) test::expect_near(got.specs()[i].name, got.gradient(i), want.gradient(i), bound, scale);
}

TransformerOptions options_of(const ModelConfig& model, Index micro_batch, Index sequence_length) {
  return {.model = model,
          .moe = {},
          .recompute = {},
          .weights = DType::kF32,
          .gradients = DType::kF32,
          .micro_batch = micro_batch,
          .sequence_length = sequence_length};
}

/// Losses and gradients of four sequences in micro-batches of `size`, with `scope`.
void expect_any_split(const std::string& scope, Index size) {
  TransformerOptions options = options_of(test::small_moe(), 4, 7);
  options.moe.aux_loss_scope = scope;
  const test::Rows rows = test::random_rows(options.model, 4, 7);
  Training whole(options), split(options);

  const auto all = whole.transformer.forward(rows.batch());
  const auto counts_span = whole.transformer.expert_counts();
  const std::vector<std::int64_t> counts(counts_span.begin(), counts_span.end());
  const GlobalExpertCounts global = scope == "global_batch" ? GlobalExpertCounts{counts, 28} : GlobalExpertCounts{};
  LossScale scale = test::scale_of(rows, 0.5, 0.1);
  whole.transformer.forward_backward(rows.batch(), scale, global);

  const Index pieces = 4 / size;
  scale.aux /= static_cast<double>(pieces);
  scale.z /= static_cast<double>(pieces);
  MicroBatchResult sum;
  for (Index piece = 0; piece < pieces; ++piece) {
    const test::Rows part = rows.slice(piece * size, (piece + 1) * size);
    const auto result = split.transformer.forward_backward(part.batch(), scale, global);
    sum.lm_loss_sum += result.lm_loss_sum;
    sum.aux_loss += result.aux_loss / static_cast<double>(pieces);
    sum.z_loss += result.z_loss / static_cast<double>(pieces);
  }
  EXPECT_NEAR(sum.lm_loss_sum, all.lm_loss_sum, 1e-5 * all.lm_loss_sum);
  EXPECT_NEAR(sum.aux_loss, all.aux_loss, 1e-6 * all.aux_loss);
  EXPECT_NEAR(sum.z_loss, all.z_loss, 1e-5 * all.z_loss);
  expect_same_gradients(split.parameters, whole.parameters, 1e-5);
}

TEST(MicroBatches, OfAnySizeGiveTheSameLossesAndGradientsWithTheGlobalScope) {
  expect_any_split("global_batch", 1);
  expect_any_split("global_batch", 2);
}

TEST(MicroBatches, OfAnySizeGiveTheSameLossesAndGradientsWithTheSequenceScope) {
  expect_any_split("sequence", 1);
  expect_any_split("sequence", 2);
}

TEST(MicroBatches, OfOneSequenceAreSequences) {
  TransformerOptions options = options_of(test::small_moe(), 1, 9);
  const test::Rows rows = test::random_rows(options.model, 1, 9);
  Training by_rows(options);
  options.moe.aux_loss_scope = "sequence";
  Training by_sequence(options);
  const auto a = by_rows.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
  const auto b = by_sequence.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
  EXPECT_EQ(a.aux_loss, b.aux_loss);
  EXPECT_TRUE(by_rows.parameters.gradient_bytes() == by_sequence.parameters.gradient_bytes());
}

TEST(MicroBatches, ShorterThanPlannedForAreAllowed) {
  const ModelConfig model = test::small_moe();
  const test::Rows rows = test::random_rows(model, 2, 3);
  Training small(options_of(model, 2, 3)), large(options_of(model, 5, 16));
  const auto a = small.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
  const auto b = large.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
  EXPECT_EQ(a.lm_loss_sum, b.lm_loss_sum);
  EXPECT_TRUE(small.parameters.gradient_bytes() == large.parameters.gradient_bytes());
}

TEST(Implementations, FastAndReferenceAgree) {
  for (const char* backend : {"ref", "cpu"}) {
    for (const bool normalise : {false, true}) {
      TransformerOptions options = options_of(test::small_moe(), 3, 13);
      options.model.norm_topk_prob = normalise;
      const test::Rows rows = test::random_rows(options.model, 3, 13);
      Training fast(options, backend);
      options.moe.implementation = "reference";
      Training reference(options, backend);
      const auto a = fast.transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.01, 0.001), {});
      const auto b = reference.transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.01, 0.001), {});
      EXPECT_NEAR(a.lm_loss_sum, b.lm_loss_sum, 1e-6 * b.lm_loss_sum);
      expect_same_gradients(fast.parameters, reference.parameters, 1e-5);
    }
  }
}

TEST(Threads, OfAnyNumberGiveTheSameBits) {
  // Through the model, the rows of one micro-batch: enough for every kernel to share them out.
  ModelConfig model = test::small_moe();
  model.hidden_size = 48;
  model.num_experts = 7;
  const test::Rows rows = test::random_rows(model, 4, 37);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TransformerOptions options = options_of(model, 4, 37);
    options.weights = dtype;
    std::vector<std::string> gradients;
    for (const char* name : {"cpu_one_thread", "cpu"}) {
      Training run(options, name);
      run.transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.01, 0.001), {});
      gradients.push_back(run.parameters.gradient_bytes());
    }
    EXPECT_TRUE(gradients[0] == gradients[1]) << dtype_name(dtype);
  }
}

TEST(Bf16, StaysNearF32InLossAndGradients) {
  // bf16 keeps 8 bits: 0.4 % a rounding. Choices near a tie may fall the other way, so every expert is chosen.
  for (const DType gradients : {DType::kF32, DType::kBF16}) {
    TransformerOptions options = options_of(test::small_moe(), 4, 16);
    options.model.num_experts_per_tok = options.model.num_experts;
    const test::Rows rows = test::random_rows(options.model, 4, 16);
    Training exact(options, "cpu");
    options.weights = DType::kBF16;
    options.gradients = gradients;
    Training rounded(options, "cpu");
    const auto a = exact.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
    const auto b = rounded.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
    EXPECT_NEAR(b.lm_loss_sum, a.lm_loss_sum, 0.01 * a.lm_loss_sum);
    for (std::size_t i = 0; i < exact.parameters.specs().size(); ++i) {
      const auto want = exact.parameters.gradient(i), got = rounded.parameters.gradient(i);
      double error = 0, norm = 0;
      for (std::size_t j = 0; j < want.size(); ++j) {
        error += (got[j] - want[j]) * (got[j] - want[j]);
        norm += want[j] * want[j];
      }
      EXPECT_LT(std::sqrt(error / norm), 0.1) << exact.parameters.specs()[i].name << ", gradients in " << dtype_name(gradients);
    }
  }
}

TEST(IdleExperts, KeepGradientsOfExactlyZeroOverSteps) {
  for (const char* implementation : {"fast", "reference"}) {
    for (const char* backend : {"ref", "cpu"}) {
      TransformerOptions options = options_of(test::small_moe(), 1, 2);  // two rows of two choices: at least one of five experts is idle
      options.moe.implementation = implementation;
      const test::Rows rows = test::random_rows(options.model, 1, 2);
      Training run(options, backend);
      bool has_idle = false;
      for (int step = 0; step < 3; ++step) {
        run.parameters.zero_gradients();
        run.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
        const auto counts = run.transformer.expert_counts();
        for (std::size_t i = 0; i < run.parameters.specs().size(); ++i) {
          const ParamSpec& spec = run.parameters.specs()[i];
          if (!spec.is_expert) continue;
          for (Index e = 0; e < 5; ++e) {
            if (counts[static_cast<std::size_t>(spec.layer * 5 + e)] != 0) continue;
            has_idle = true;
            for (const double value : test::to_double(run.parameters.gradients()[i][e])) ASSERT_EQ(value, 0.0) << spec.tensor_name(e) << " in step " << step;
          }
        }
      }
      EXPECT_TRUE(has_idle);
    }
  }
}

TEST(BalancingLoss, HasAGradientLinearInItsCoefficient) {
  TransformerOptions options = options_of(test::small_moe(), 2, 9);
  options.weights = options.gradients = DType::kF64;
  const test::Rows rows = test::random_rows(options.model, 2, 9);
  Training none(options), once(options), thrice(options);
  none.transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.0), {});
  once.transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.2), {});
  thrice.transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.6), {});
  bool is_felt = false;
  for (std::size_t i = 0; i < none.parameters.specs().size(); ++i) {
    const auto base = none.parameters.gradient(i), one = once.parameters.gradient(i), three = thrice.parameters.gradient(i);
    double largest = 0;
    for (const double value : three) largest = std::max(largest, std::abs(value));
    for (std::size_t j = 0; j < base.size(); ++j) {
      EXPECT_NEAR(three[j] - base[j], 3 * (one[j] - base[j]), 1e-12 * largest);
      is_felt = is_felt || std::abs(one[j] - base[j]) > 1e-6 * largest;
    }
  }
  EXPECT_TRUE(is_felt);
}

TEST(OddShapes, TrainWithFiniteGradientsOnBothBackendsAlike) {
  struct Sizes {
    Index sequences, length, experts, chosen;
  };
  for (const Sizes& sizes : {Sizes{1, 1, 5, 2}, Sizes{3, 1, 5, 2}, Sizes{1, 17, 1, 1}, Sizes{2, 3, 5, 5}, Sizes{7, 13, 11, 3}}) {
    TransformerOptions options = options_of(test::small_moe(), sizes.sequences, sizes.length);
    options.model.num_experts = sizes.experts;
    options.model.num_experts_per_tok = sizes.chosen;
    options.model.intermediate_size = 13;
    options.model.vocab_size = 101;
    const test::Rows rows = test::random_rows(options.model, sizes.sequences, sizes.length);
    Training ref(options, "ref"), cpu(options, "cpu");
    const auto a = ref.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
    const auto b = cpu.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
    EXPECT_TRUE(std::isfinite(a.lm_loss_sum));
    EXPECT_NEAR(a.lm_loss_sum, b.lm_loss_sum, 1e-5 * a.lm_loss_sum);
    expect_same_gradients(cpu.parameters, ref.parameters, 2e-5, 0.1);  // with one position queries and keys have no gradient but rounding
  }
}

TEST(UniformRouting, GivesEveryExpertTheSameRows) {
  TransformerOptions options = options_of(test::small_moe(), 2, 8);
  options.moe.force_uniform_routing = true;
  const test::Rows rows = test::random_rows(options.model, 2, 8);
  Training run(options);
  run.transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
  // Rows 0..15 choose (t, t + 1) mod 5: 32 choices, 6 or 7 each.
  const std::vector<std::int64_t> layer{7, 7, 6, 6, 6};
  for (Index l = 0; l < 2; ++l) {
    for (Index e = 0; e < 5; ++e) EXPECT_EQ(run.transformer.expert_counts()[static_cast<std::size_t>(l * 5 + e)], layer[static_cast<std::size_t>(e)]) << e;
  }
}

}  // namespace
}  // namespace optimus
