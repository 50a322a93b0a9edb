// The backend that counts, over memory that does not exist: an operation that read an element would die here.
#include "optimus/backend/dry/dry_backend.hpp"

#include <gtest/gtest.h>

#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/moe.hpp"
#include "optimus/ops/norm.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {
namespace {

class DryBackendTest : public testing::Test {
 protected:
  View bf16(Shape shape) { return arena.alloc(DType::kBF16, shape); }
  View f32(Shape shape) { return arena.alloc(DType::kF32, shape); }
  View i32(Shape shape) { return arena.alloc(DType::kI32, shape); }
  View i64(Shape shape) { return arena.alloc(DType::kI64, shape); }
  DispatchPlan plan() { return {i64({3}), i32({10}), i64({6}), i32({10}), i32({10})}; }  // 5 rows, 2 choices, 2 local experts

  Arena arena = Arena::measuring();
  std::unique_ptr<DryBackend> dry = make_dry_backend();
};

TEST_F(DryBackendTest, CountsTwoOperationsForEveryTripleOfALinear) {
  ops::linear_forward(*dry, bf16({5, 3}), bf16({7, 3}), bf16({5, 7}));
  EXPECT_EQ(dry->work().gemm_flops, 2 * 5 * 3 * 7);
  ops::linear_backward_input(*dry, bf16({5, 7}), bf16({7, 3}), bf16({5, 3}), Write::kOverwrite);
  EXPECT_EQ(dry->work().gemm_flops, 2 * 2 * 5 * 3 * 7);
  ops::linear_backward_weight(*dry, bf16({5, 7}), bf16({5, 3}), f32({7, 3}));
  EXPECT_EQ(dry->work().gemm_flops, 3 * 2 * 5 * 3 * 7);
  EXPECT_EQ(dry->work().other_bytes, 0);
}

TEST_F(DryBackendTest, CountsGroupedProductsWithAllRowsOfCapacity) {
  ops::grouped_linear_forward(*dry, bf16({10, 3}), bf16({2, 7, 3}), i64({3}), bf16({10, 7}));
  ops::grouped_linear_backward_input(*dry, bf16({10, 7}), bf16({2, 7, 3}), i64({3}), bf16({10, 3}), Write::kOverwrite);
  ops::grouped_linear_backward_weight(*dry, bf16({10, 7}), bf16({10, 3}), i64({3}), f32({2, 7, 3}));
  EXPECT_EQ(dry->work().gemm_flops, 3 * 2 * 10 * 3 * 7);
}

TEST_F(DryBackendTest, CountsTheRouterAsProducts) {
  ops::router_logits_forward(*dry, bf16({5, 3}), bf16({8, 3}), f32({5, 8}));
  ops::router_logits_backward(*dry, f32({5, 8}), bf16({5, 3}), bf16({8, 3}), bf16({5, 3}), f32({8, 3}));
  EXPECT_EQ(dry->work().gemm_flops, 3 * 2 * 5 * 3 * 8);
}

TEST_F(DryBackendTest, CountsAttentionOverTheCausalPairsOnly) {
  // 3 queries at the end of 5 keys see 3, 4 and 5 of them: 12 pairs, in 2 sequences, for 4 heads of size 8.
  const AttentionShape s{.batch = 2, .queries = 3, .keys = 5, .heads = 4, .kv_heads = 2, .head_size = 8};
  const View q = bf16({6, 32}), k = bf16({10, 16}), v = bf16({10, 16}), o = bf16({6, 32}), lse = f32({2, 4, 3});
  ops::attention_forward(*dry, s, q, k, v, {}, o, lse);
  EXPECT_EQ(dry->work().attention_flops, 4 * 8 * 12 * 2 * 4);
  ops::attention_backward(*dry, s, o, {q, k, v, {}, o, lse}, {bf16({6, 32}), bf16({10, 16}), bf16({10, 16})});
  EXPECT_EQ(dry->work().attention_flops, (4 + 8) * 8 * 12 * 2 * 4);
}

TEST_F(DryBackendTest, CountsBytesReadAndWrittenByTheRest) {
  ops::add(*dry, bf16({10}), bf16({10}), bf16({10}));
  EXPECT_EQ(dry->work().other_bytes, 60);
  ops::layer_norm_forward(*dry, bf16({2, 5}), 1e-5, bf16({2, 5}), f32({2}), f32({2}));
  EXPECT_EQ(dry->work().other_bytes, 60 + 20 + 20 + 8 + 8);
  EXPECT_EQ(dry->work().gemm_flops, 0);
}

TEST_F(DryBackendTest, EveryOtherOperationRunsWithoutMemory) {
  const View x = bf16({5, 4}), y = bf16({5, 4}), gain = bf16({4}), row = f32({5}), slots = bf16({10, 4}), p = f32({5, 6}), index = i32({5, 2}),
             weight = f32({5, 2}), of_slot = f32({10});
  ops::rms_norm_forward(*dry, x, gain, 1e-5, y, row);
  ops::rms_norm_backward(*dry, y, x, gain, row, y, Write::kAccumulate, f32({4}));
  ops::row_sum_squares(*dry, x, row);
  ops::rms_norm_rstd(*dry, row, 8, 1e-5, row);
  ops::rms_norm_apply(*dry, x, gain, row, y);
  ops::rms_norm_dots(*dry, {y, x, gain, row, 8}, row);
  ops::rms_norm_backward_apply(*dry, {y, x, gain, row, 8}, row, y, Write::kAccumulate, f32({4}));
  ops::combine_softmax_statistics(*dry, f32({2, 3, 5}), {row, row, row});
  ops::layer_norm_backward(*dry, y, x, row, row, y, Write::kAccumulate);
  ops::rope(*dry, x, i32({5}), f32({9, 1}), f32({9, 1}), 2, true);
  ops::clamp_forward(*dry, x, 1, x);
  ops::clamp_backward(*dry, y, x, 1, y);
  ops::router_softmax(*dry, p, p, row);
  ops::router_top_k(*dry, p, index);
  ops::router_uniform(*dry, 0, 6, index);
  ops::router_weights(*dry, p, index, true, weight);
  ops::router_backward(*dry, {.p_TE = p, .lse_T = row, .index_TK = index, .weight_TK = weight, .dweight_TK = weight, .dp_GE = f32({1, 6})}, p);
  ops::expert_counts(*dry, index, i64({1, 6}));
  ops::column_sums(*dry, p, arena.alloc(DType::kF64, {5, 6}));
  ops::build_dispatch(*dry, index, 2, plan());
  ops::gather_rows(*dry, x, plan(), slots);
  ops::scatter_rows(*dry, slots, plan(), y, Write::kAccumulate);
  ops::combine_forward(*dry, slots, weight, plan(), y);
  ops::slot_weights(*dry, weight, plan(), of_slot);
  ops::slot_weights_backward(*dry, of_slot, plan(), weight);
  ops::swiglu_forward(*dry, slots, slots, i64({1}), slots);
  ops::swiglu_backward(*dry, slots, slots, slots, slots, slots);
  ops::expert_swiglu_backward(*dry, slots, slots, slots, of_slot, i64({3}), {slots, slots, slots, of_slot});
  ops::cross_entropy_statistics(*dry, p, i32({5}), 0, {row, row, row});
  ops::cross_entropy_loss(*dry, {row, row, row}, i32({5}), row, row);
  ops::cross_entropy_gradient(*dry, p, i32({5}), 0, row, 1, p);
  ops::argmax(*dry, p, i32({5}));
  ops::adamw_update(*dry, {}, f32({9}), f32({9}), f32({9}), f32({9}), bf16({9}));
  ops::sgd_update(*dry, 1, 0, 1, f32({9}), f32({9}), bf16({9}));
  EXPECT_EQ(ops::sum_squares(*dry, x), 0);
  ops::embedding_forward(*dry, bf16({9, 4}), i32({5}), x);
  ops::embedding_backward(*dry, x, i32({5}), f32({9, 4}));
  ops::convert(*dry, x, f32({5, 4}));
  ops::fill_zero(*dry, x);
  ops::copy(*dry, x, y);
  EXPECT_GT(dry->work().other_bytes, 0);
}

}  // namespace
}  // namespace optimus
