// A model shared by TP ranks has the losses and gradients that it has on one rank, and the same bits with and without recomputation.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "optimus/ops/loss.hpp"
#include "tests/support/mpi/mpi_world.hpp"
#include "tests/support/split_model.hpp"

namespace optimus {
namespace {

/// Heads, widths and rows that every degree up to 4 can share.
ModelConfig shared_model(bool is_moe) {
  ModelConfig model = is_moe ? test::small_moe() : test::small_dense();
  model.hidden_size = 16;
  model.num_attention_heads = model.num_key_value_heads = 4;
  model.intermediate_size = 12;
  model.vocab_size = 61;  // 16, 15, 15, 15
  return model;
}

struct Case {
  std::string name;
  bool is_moe = true;
  std::function<void(TransformerOptions&)> change = [](TransformerOptions&) {};
  Index sequences = 2;  ///< of each data rank
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class TensorParallel : public testing::TestWithParam<std::tuple<Case, bool>> {
 protected:
  [[nodiscard]] static const Case& one() { return std::get<0>(GetParam()); }
  [[nodiscard]] static Index tp() { return test::world().size(); }

  /// Shared by all ranks of the program.
  [[nodiscard]] static test::SharedBy shared_by() { return {.tp = tp(), .ep = 1, .sequence_parallel = std::get<1>(GetParam())}; }

  [[nodiscard]] static TransformerOptions options(DType dtype) {
    TransformerOptions options{.model = shared_model(one().is_moe), .moe = {}, .recompute = {}, .weights = dtype, .gradients = dtype};
    options.micro_batch = one().sequences;
    options.sequence_length = 8;
    one().change(options);
    return options;
  }
  [[nodiscard]] static test::Rows rows(const TransformerOptions& options, Index data_ranks = 1) {
    test::Rows rows = test::random_rows(options.model, data_ranks * one().sequences, options.sequence_length);
    rows.labels[1] = ops::kIgnoredLabel;
    return rows;
  }
};

TEST_P(TensorParallel, GivesTheLossesAndGradientsOfOneRankInDouble) {
  const TransformerOptions given = options(DType::kF64);
  const test::Rows all = rows(given);
  test::expect_as_on_one_rank(given, shared_by(), all, test::scale_of(all, 0.7, 0.3), "ref", 1e-12);
}

class TensorParallelOnCpu : public TensorParallel {};

TEST_P(TensorParallelOnCpu, GivesTheLossesAndGradientsOfOneRankInSinglePrecision) {
  const TransformerOptions given = options(DType::kF32);
  const test::Rows all = rows(given);
  test::expect_as_on_one_rank(given, shared_by(), all, test::scale_of(all, 0.7, 0.3), "cpu_one_thread", 1e-5);
}

TEST_P(TensorParallelOnCpu, HasTheSameBitsForEveryRecomputation) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::string kept;
    for (const int subset : {0, 1, 2, 4, 7}) {
      TransformerOptions given = options(dtype);
      given.gradients = DType::kF32;
      given.recompute = {.norm = (subset & 1) != 0, .attention = (subset & 2) != 0, .moe = (subset & 4) != 0};
      const test::Rows all = rows(given);
      test::SplitModel model(given, shared_by(), "cpu_one_thread");
      for (int step = 0; step < 2; ++step) model.forward_backward(all, test::scale_of(all, 0.7, 0.3));
      if (subset == 0) kept = model.parameters().gradient_bytes();
      EXPECT_TRUE(model.parameters().gradient_bytes() == kept) << "norm, attention, moe = " << subset << ", " << dtype_name(dtype);
    }
  }
}

TEST(TensorParallelBackward, InTwoPartsHasTheSameBits) {
  for (const bool sequence_parallel : {false, true}) {
    for (const bool is_moe : {false, true}) {
      for (const bool recomputes : {false, true}) {
        TransformerOptions options{
            .model = shared_model(is_moe), .moe = {}, .recompute = {recomputes, recomputes, recomputes}, .sequence_length = 8, .slots = 2};
        options.model.num_key_value_heads = 1;
        const test::Rows rows[] = {test::random_rows(options.model, 1, 8, 1), test::random_rows(options.model, 1, 8, 2)};
        std::string gradients[2];
        for (const bool is_split : {false, true}) {
          options.splits_backward = is_split;
          test::SplitModel model(options, {.tp = test::world().size(), .ep = 1, .sequence_parallel = sequence_parallel}, "cpu_one_thread");
          Transformer& transformer = model.transformer();
          const LossScale scale = test::scale_of(rows[0], 0.7, 0.3);
          for (const Index slot : {0, 1}) transformer.stage_forward(slot, rows[slot].batch(), scale, {}, {});
          for (const Index slot : {0, 1}) {
            if (is_split) transformer.stage_backward_input(slot, rows[slot].batch(), scale, {}, {}, {});
            else transformer.stage_backward(slot, rows[slot].batch(), scale, {}, {}, {});
          }
          for (Index slot = 0; is_split && slot < 2; ++slot) transformer.stage_backward_weight(slot);
          gradients[is_split ? 1 : 0] = model.parameters().gradient_bytes();
        }
        EXPECT_TRUE(gradients[0] == gradients[1]) << "experts " << is_moe << ", spread rows " << sequence_parallel << ", recomputed " << recomputes;
      }
    }
  }
}

/// Half of the ranks share each layer, and two or more the experts of a layer.
TEST(TensorParallelBesideExperts, GivesTheLossesAndGradientsOfOneRank) {
  const Index world = test::world().size();
  for (const bool sequence_parallel : {false, true}) {
    for (const char* dispatcher : {"all_gather", "all_to_all"}) {
      for (const bool recomputes : {false, true}) {
        TransformerOptions options{.model = shared_model(true), .moe = {}, .recompute = {recomputes, recomputes, recomputes}};
        options.weights = options.gradients = DType::kF64;
        options.micro_batch = 2;
        options.sequence_length = 4;
        options.model.num_experts = 6;
        options.moe.dispatcher = dispatcher;
        const test::Rows rows = test::random_rows(options.model, 4, 4);
        test::expect_as_on_one_rank(options, {.tp = world / 2, .ep = 2, .sequence_parallel = sequence_parallel}, rows, test::scale_of(rows, 0.7, 0.3), "ref",
                                    1e-12);
      }
    }
  }
}

/// Half of the ranks share each copy of the model.
TEST(TensorParallelBesideData, GivesTheLossesAndGradientsOfOneRank) {
  const Index world = test::world().size();
  for (const bool sequence_parallel : {false, true}) {
    for (const bool is_moe : {false, true}) {
      TransformerOptions options{
          .model = shared_model(is_moe), .moe = {}, .recompute = {}, .weights = DType::kF64, .gradients = DType::kF64, .micro_batch = 2, .sequence_length = 4};
      options.model.num_key_value_heads = 1;
      const test::Rows rows = test::random_rows(options.model, 4, 4);
      test::expect_as_on_one_rank(options, {.tp = world / 2, .ep = 1, .sequence_parallel = sequence_parallel}, rows, test::scale_of(rows, 0.7, 0.3), "ref",
                                  1e-12);
    }
  }
}

TEST(TensorParallelInBf16, StaysNearOneRank) {
  // Parts of sums are rounded to 8 bits before they are added up. Every expert is chosen: no choice can fall the other way.
  for (const bool is_moe : {false, true}) {
    TransformerOptions options{.model = shared_model(is_moe), .moe = {}, .recompute = {}, .weights = DType::kBF16, .gradients = DType::kF32};
    options.micro_batch = 2;
    options.sequence_length = 8;
    options.model.num_experts_per_tok = options.model.num_experts;
    const test::Rows rows = test::random_rows(options.model, 2, 8);
    test::SplitModel shared(options, {.tp = test::world().size(), .ep = 1, .sequence_parallel = true}, "cpu_one_thread");
    const test::Outcome got = shared.outcome(rows, test::scale_of(rows));
    options.weights = DType::kF32;
    const test::Outcome want = test::outcome_on_one_rank(options, 1, rows, test::scale_of(rows), "cpu_one_thread");
    EXPECT_NEAR(got.losses.lm_loss_sum, want.losses.lm_loss_sum, 0.01 * want.losses.lm_loss_sum);
    for (std::size_t i = 0; i < want.gradients.size(); ++i) test::expect_near(shared.specs()[i].name, got.gradients[i], want.gradients[i], 0.15);
  }
}

TEST(IdleExperts, KeepGradientsOfExactlyZeroOverSteps) {
  for (const bool sequence_parallel : {false, true}) {
    for (const char* implementation : {"fast", "reference"}) {
      // Four rows of one choice among nine experts: most are idle. Memory is poisoned.
      TransformerOptions options{.model = shared_model(true), .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = 4};
      options.model.num_experts = 9;
      options.model.num_experts_per_tok = 1;
      options.moe.implementation = implementation;
      test::SplitModel model(options, {.tp = test::world().size(), .ep = 1, .sequence_parallel = sequence_parallel}, "cpu_one_thread");
      const test::Rows rows = test::random_rows(options.model, 1, 4);
      for (int step = 0; step < 3; ++step) {
        model.parameters().zero_gradients();
        model.forward_backward(rows, test::scale_of(rows));
        const auto counts = model.transformer().expert_counts();
        for (std::size_t i = 0; i < model.specs().size(); ++i) {
          const ParamSpec& spec = model.specs()[i];
          if (!spec.is_expert) continue;
          for (Index e = 0; e < 9; ++e) {
            if (counts[static_cast<std::size_t>(spec.layer * 9 + e)] != 0) continue;
            for (const double value : test::to_double(model.parameters().gradients()[i][e]))
              ASSERT_EQ(value, 0.0) << spec.tensor_name(e) << " in step " << step;
          }
        }
      }
    }
  }
}

TEST(SequenceParallel, RefusesRowsThatItCannotShareOutEvenly) {
  TransformerOptions options{.model = shared_model(true), .moe = {}, .recompute = {}, .micro_batch = 3, .sequence_length = 3};
  const test::SharedBy shared_by{.tp = test::world().size(), .ep = 1, .sequence_parallel = true};
  try {
    const test::SplitModel model(options, shared_by);
    ADD_FAILURE() << "nine rows were accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("tp = {} ranks, and 3 sequences of 3 tokens", test::world().size())), std::string::npos)
        << error.what();
  }
  options.sequence_length = 4;
  test::SplitModel model(options, shared_by);
  EXPECT_THROW(model.forward_backward(test::random_rows(options.model, 1, 3), {.lm = 1}), ShapeError);
}

std::vector<Case> cases() {
  using Options = TransformerOptions;
  const auto grouped = [](Options& o) { o.model.num_key_value_heads = 2; };
  const auto one_kv_head = [](Options& o) { o.model.num_key_value_heads = 1; };
  const auto tied = [](Options& o) { o.model.tie_word_embeddings = true; };
  const auto clipped = [](Options& o) { o.model.clip_qkv = 0.6; };
  const auto grouped_clipped = [](Options& o) {
    o.model.num_attention_heads = 8;
    o.model.num_key_value_heads = 2;
    o.model.clip_qkv = 0.6;
  };
  return {
      {"dense", false},
      {"dense_grouped", false, grouped},
      {"dense_one_kv_head", false, one_kv_head},
      {"dense_tied_one_sequence", false, tied, 1},
      {"dense_clipped", false, clipped},
      {"moe"},
      {"moe_grouped", true, grouped},
      {"moe_one_kv_head", true, one_kv_head},
      {"moe_grouped_clipped", true, grouped_clipped},
      {"moe_clipped", true, clipped},
      {"moe_tied", true, tied},
      {"moe_one_choice", true, [](Options& o) { o.model.num_experts_per_tok = 1; }},
      {"moe_normalised_weights", true, [](Options& o) { o.model.norm_topk_prob = true; }},
      {"moe_sequence_scope", true, [](Options& o) { o.moe.aux_loss_scope = "sequence"; }, 3},
      {"moe_global_scope", true, [](Options& o) { o.moe.aux_loss_scope = "global_batch"; }},
      {"moe_reference", true, [](Options& o) { o.moe.implementation = "reference"; }},
      {"moe_one_short_sequence", true, [](Options& o) { o.sequence_length = 4; }, 1},
  };
}

/// Those that differ most in what ranks say to each other.
std::vector<Case> cases_on_cpu() {
  std::vector<Case> some;
  for (const Case& one : cases()) {
    if (one.name == "dense_grouped" || one.name == "moe_grouped_clipped" || one.name == "moe_tied") some.push_back(one);
  }
  return some;
}

std::string name_of(const testing::TestParamInfo<std::tuple<Case, bool>>& one) {
  return fmt::format("{}_{}", std::get<0>(one.param).name, std::get<1>(one.param) ? "spread_rows" : "all_rows");
}
INSTANTIATE_TEST_SUITE_P(Models, TensorParallel, testing::Combine(testing::ValuesIn(cases()), testing::Bool()), name_of);
INSTANTIATE_TEST_SUITE_P(Models, TensorParallelOnCpu, testing::Combine(testing::ValuesIn(cases_on_cpu()), testing::Bool()), name_of);

}  // namespace
}  // namespace optimus
