// Nothing is allocated after the first steps, and nothing of the forbidden sizes at all. This program counts every call of malloc and its relatives.

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/malloc_hooks.hpp"
#include "tests/support/model_testing.hpp"

namespace {
std::atomic<long> allocations{0};
std::atomic<long> allocated_bytes{0};
}  // namespace

void count_allocation(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(static_cast<long>(bytes), std::memory_order_relaxed);
}

namespace optimus {
namespace {

/// Allocations of five steps over changing rows, after three of warming up.
long allocations_in_steady_state(const TransformerOptions& options) {
  const LossScale scale{.lm = 1, .aux = 0.01, .z = 0};
  const auto backend = test::make_backend("cpu");
  test::Parameters parameters(options.model, options.weights, options.gradients);
  parameters.initialize(41);
  Transformer transformer(options, *backend);
  transformer.bind(parameters.weights(), parameters.gradients());
  std::vector<test::Rows> rows;
  for (std::uint64_t seed = 0; seed < 8; ++seed) rows.push_back(test::random_rows(options.model, options.micro_batch, options.sequence_length, seed));
  long before = 0;
  for (std::size_t step = 0; step < rows.size(); ++step) {
    if (step == 3) before = allocations.load();
    transformer.stage_forward(0, rows[step].batch(), scale, {}, {});
    if (!options.splits_backward) {
      transformer.stage_backward(0, rows[step].batch(), scale, {}, {}, {});
      continue;
    }
    transformer.stage_backward_input(0, rows[step].batch(), scale, {}, {}, {});
    transformer.stage_backward_weight(0);
  }
  return allocations.load() - before;
}

TEST(Allocations, AreCountedHere) {
  const long before = allocations.load();
  const std::vector<int> some(1000);
  EXPECT_EQ(allocations.load(), before + 1) << some.size();
}

TEST(Allocations, DoNotHappenInTheSteadyState) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TransformerOptions options{
        .model = test::small_moe(), .moe = {}, .recompute = {}, .weights = dtype, .gradients = DType::kF32, .micro_batch = 2, .sequence_length = 24};
    EXPECT_EQ(allocations_in_steady_state(options), 0) << "experts, " << dtype_name(dtype);
    options.recompute = {.norm = true, .attention = true, .moe = true};
    EXPECT_EQ(allocations_in_steady_state(options), 0) << "experts, recomputed, " << dtype_name(dtype);
    options.splits_backward = true;
    EXPECT_EQ(allocations_in_steady_state(options), 0) << "experts, recomputed, backward in two parts, " << dtype_name(dtype);
    options.model = test::small_dense();
    EXPECT_EQ(allocations_in_steady_state(options), 0) << "dense, " << dtype_name(dtype);
  }
}

/// Bytes that a transformer and its backend ask for in their whole life.
long bytes_of_a_step(const TransformerOptions& options) {
  test::Parameters parameters(options.model, options.weights, options.gradients);
  parameters.initialize(43);
  const test::Rows rows = test::random_rows(options.model, options.micro_batch, options.sequence_length);
  const long before = allocated_bytes.load();
  const auto backend = test::make_backend("cpu");
  Transformer transformer(options, *backend);
  transformer.bind(parameters.weights(), parameters.gradients());
  transformer.forward_backward(rows.batch(), test::scale_of(rows), {});
  return allocated_bytes.load() - before;
}

TEST(Memory, OfLongSequencesStaysFarBelowAllScores) {
  ModelConfig model = test::small_dense();
  model.max_position_embeddings = 4096;
  model.num_hidden_layers = 1;
  const long bytes = bytes_of_a_step({.model = model, .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = 4096});
  EXPECT_LT(bytes, 4096L * 4096 * 4 / 2) << "half of the scores of one of three heads";
}

TEST(Memory, OfALargeVocabularyStaysFarBelowAllLogits) {
  ModelConfig model = test::small_dense();
  model.vocab_size = 20011;
  model.max_position_embeddings = 2048;
  model.num_hidden_layers = 1;
  const long bytes = bytes_of_a_step({.model = model, .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = 2048});
  EXPECT_LT(bytes, 2048L * 20011 * 4 / 2);
}

}  // namespace
}  // namespace optimus
