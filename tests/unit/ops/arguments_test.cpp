// What each operation refuses, and that the message says where and why.
#include <gtest/gtest.h>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/backend/ref/ref_backend.hpp"
#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/moe.hpp"
#include "optimus/ops/norm.hpp"
#include "optimus/ops/update.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Tensor;

Tensor f32(Shape shape) { return {DType::kF32, shape}; }
Tensor bf16(Shape shape) { return {DType::kBF16, shape}; }
Tensor i32(Shape shape) { return {DType::kI32, shape}; }
Tensor i64(Shape shape) { return {DType::kI64, shape}; }

Backend& ref() {
  static const auto backend = make_ref_backend();
  return *backend;
}

/// The call throws E, and its message has every one of the words.
template <class E, class Call>
void expect_refusal(const Call& call, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; wanted a message with " << words.front();
  } catch (const E& error) {
    for (const std::string& word : words) EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << "no '" << word << "' in: " << error.what();
  }
}

TEST(Arguments, AMessageNamesTheOperationTheArgumentAndBothShapes) {
  expect_refusal<ShapeError>([] { ops::linear_forward(ref(), f32({2, 3}), f32({4, 5}), f32({2, 4})); },
                             {"[ops] linear_forward: w_OI is [4, 5], wanted [4, 3]"});
  expect_refusal<ShapeError>([] { ops::linear_forward(ref(), f32({2, 3, 1}), f32({4, 3}), f32({2, 4})); },
                             {"[ops] linear_forward: x_TI is [2, 3, 1], wanted 2 dimensions"});
  expect_refusal<ShapeError>([] { ops::linear_forward(ref(), f32({2, 3}), f32({4, 3}), View()); }, {"[ops] linear_forward: y_TO is missing, wanted [2, 4]"});
}

TEST(Arguments, AMessageNamesBothElementTypes) {
  expect_refusal<UnsupportedError>([] { ops::linear_forward(ref(), f32({2, 3}), bf16({4, 3}), f32({2, 4})); },
                                   {"[ops] linear_forward: w_OI is bf16, wanted f32"});
  expect_refusal<UnsupportedError>([] { ops::rms_norm_forward(ref(), bf16({2, 3}), bf16({3}), 1e-5, bf16({2, 3}), bf16({2})); },
                                   {"rms_norm_forward", "rstd_T is bf16, wanted f32"});
}

TEST(Arguments, ATypeThatTheBackendDoesNotComputeOnIsNamedWithTheBackend) {
  const auto cpu = make_cpu_backend(1);
  const Tensor x(DType::kF64, {4});
  expect_refusal<UnsupportedError>([&] { ops::add(*cpu, x, x, x); }, {"add", "f64", cpu->description()});
  expect_refusal<UnsupportedError>([&] { ops::add(ref(), i32({4}), i32({4}), i32({4})); }, {"add", "i32", ref().description()});
}

TEST(Arguments, LinearOperationsRefuseWrongShapes) {
  expect_refusal<ShapeError>([] { ops::linear_backward_input(ref(), f32({2, 4}), f32({4, 3}), f32({2, 4}), Write::kOverwrite); },
                             {"linear_backward_input", "dx_TI is [2, 4], wanted [2, 3]"});
  expect_refusal<ShapeError>([] { ops::linear_backward_weight(ref(), f32({2, 4}), f32({3, 3}), f32({4, 3})); },
                             {"linear_backward_weight", "x_TI is [3, 3], wanted [2, 3]"});
  expect_refusal<ShapeError>([] { ops::grouped_linear_forward(ref(), f32({5, 3}), f32({2, 4, 3}), i64({2}), f32({5, 4})); },
                             {"grouped_linear_forward", "segments_e is [2], wanted [3]"});
  expect_refusal<ShapeError>([] { ops::grouped_linear_backward_input(ref(), f32({5, 3}), f32({2, 4, 3}), i64({3}), f32({5, 3}), Write::kOverwrite); },
                             {"grouped_linear_backward_input", "dy_RO is [5, 3], wanted [5, 4]"});
  expect_refusal<ShapeError>([] { ops::grouped_linear_backward_weight(ref(), f32({5, 4}), f32({6, 3}), i64({3}), f32({2, 4, 3})); },
                             {"grouped_linear_backward_weight", "x_RI is [6, 3], wanted [5, 3]"});
  expect_refusal<UnsupportedError>([] { ops::grouped_linear_forward(ref(), f32({5, 3}), f32({2, 4, 3}), i32({3}), f32({5, 4})); },
                                   {"grouped_linear_forward", "segments_e is i32, wanted i64"});
}

TEST(Arguments, NormOperationsRefuseWrongShapes) {
  expect_refusal<ShapeError>([] { ops::rms_norm_forward(ref(), f32({2, 3}), f32({2}), 0, f32({2, 3}), f32({2})); },
                             {"rms_norm_forward", "gain_D is [2], wanted [3]"});
  expect_refusal<ShapeError>([] { ops::rms_norm_backward(ref(), f32({2, 3}), f32({2, 3}), f32({3}), f32({2}), f32({2, 3}), Write::kOverwrite, f32({4})); },
                             {"rms_norm_backward", "dgain_D is [4], wanted [3]"});
  expect_refusal<ShapeError>([] { ops::layer_norm_forward(ref(), f32({2, 3}), 0, f32({2, 3}), f32({3}), f32({2})); },
                             {"layer_norm_forward", "mean_T is [3], wanted [2]"});
  expect_refusal<ShapeError>([] { ops::layer_norm_backward(ref(), f32({2, 4}), f32({2, 3}), f32({2}), f32({2}), f32({2, 3}), Write::kOverwrite); },
                             {"layer_norm_backward", "dy_TD is [2, 4], wanted [2, 3]"});
}

TEST(Arguments, AttentionRefusesHeadsThatDoNotDivideAndMoreQueriesThanKeys) {
  const auto call = [](AttentionShape s) {
    ops::attention_forward(ref(), s, f32({s.batch * s.queries, s.heads * s.head_size}), f32({s.batch * s.keys, s.kv_heads * s.head_size}),
                           f32({s.batch * s.keys, s.kv_heads * s.head_size}), {}, f32({s.batch * s.queries, s.heads * s.head_size}),
                           f32({s.batch, s.heads, s.queries}));
  };
  expect_refusal<ShapeError>([&] { call({.batch = 1, .queries = 2, .keys = 2, .heads = 3, .kv_heads = 2, .head_size = 4}); },
                             {"attention_forward", "heads 3, kv_heads 2"});
  expect_refusal<ShapeError>([&] { call({.batch = 1, .queries = 3, .keys = 2, .heads = 2, .kv_heads = 2, .head_size = 4}); },
                             {"attention_forward", "queries 3, keys 2"});
  const AttentionShape s{.batch = 2, .queries = 3, .keys = 3, .heads = 2, .kv_heads = 1, .head_size = 4};
  expect_refusal<ShapeError>([&] { ops::attention_forward(ref(), s, f32({6, 8}), f32({6, 8}), f32({6, 4}), {}, f32({6, 8}), f32({2, 2, 3})); },
                             {"attention_forward", "k is [6, 8], wanted [6, 4]"});
  expect_refusal<ShapeError>(
      [&] {
        ops::attention_backward(ref(), s, f32({6, 8}), {f32({6, 8}), f32({6, 4}), f32({6, 4}), {}, f32({6, 8}), f32({2, 2, 3})},
                                {f32({6, 8}), f32({6, 4}), f32({6, 8})});
      },
      {"attention_backward", "dv is [6, 8], wanted [6, 4]"});
  expect_refusal<ShapeError>([] { ops::rope(ref(), f32({2, 6}), i32({2}), f32({9, 2}), f32({9, 2}), 4, false); }, {"rope", "head_size is 4", "[2, 6]"});
  expect_refusal<ShapeError>([] { ops::clamp_forward(ref(), f32({4}), 1, f32({5})); }, {"clamp_forward", "[5]"});
  expect_refusal<ShapeError>([] { ops::clamp_backward(ref(), f32({4}), f32({5}), 1, f32({5})); }, {"clamp_backward", "[4]"});
}

TEST(Arguments, RouterOperationsRefuseWrongShapes) {
  expect_refusal<ShapeError>([] { ops::router_logits_forward(ref(), f32({2, 3}), f32({4, 3}), f32({2, 3})); },
                             {"router_logits_forward", "logits_TE is [2, 3], wanted [2, 4]"});
  expect_refusal<ShapeError>([] { ops::router_logits_backward(ref(), f32({2, 4}), f32({2, 3}), f32({4, 3}), f32({2, 4}), f32({4, 3})); },
                             {"router_logits_backward", "dx_TD"});
  expect_refusal<ShapeError>([] { ops::router_softmax(ref(), f32({2, 0}), f32({2, 0}), f32({2})); }, {"router_softmax", "at least one expert"});
  expect_refusal<UnsupportedError>([] { ops::router_softmax(ref(), bf16({2, 4}), bf16({2, 4}), f32({2})); },
                                   {"router_softmax", "logits_TE is bf16, wanted f32"});
  expect_refusal<ShapeError>([] { ops::router_top_k(ref(), f32({2, 4}), i32({2, 5})); }, {"router_top_k", "index_TK is [2, 5]", "no more choices"});
  expect_refusal<ShapeError>([] { ops::router_uniform(ref(), 0, 4, i32({2, 5})); }, {"router_uniform", "index_TK"});
  expect_refusal<ShapeError>([] { ops::router_weights(ref(), f32({2, 4}), i32({2, 2}), true, f32({2, 3})); },
                             {"router_weights", "weight_TK is [2, 3], wanted [2, 2]"});
  expect_refusal<ShapeError>([] { ops::expert_counts(ref(), i32({5, 2}), i64({2, 4})); }, {"expert_counts", "counts_GE", "groups"});
  expect_refusal<ShapeError>([] { ops::column_sums(ref(), f32({4, 3}), Tensor(DType::kF64, {2, 4})); }, {"column_sums", "sums_GE is [2, 4], wanted [2, 3]"});
  const Tensor p = f32({4, 3}), lse = f32({4}), index = i32({4, 2}), weight = f32({4, 2}), dp = f32({3, 3});
  expect_refusal<ShapeError>(
      [&] { ops::router_backward(ref(), {.p_TE = p, .lse_T = lse, .index_TK = index, .weight_TK = weight, .dweight_TK = weight, .dp_GE = dp}, f32({4, 3})); },
      {"router_backward", "dp_GE is [3, 3]"});
}

TEST(Arguments, DispatchRefusesAPlanWithoutRoomForEveryChoice) {
  const Tensor index = i32({4, 2}), segments = i64({3}), offsets = i64({5}), eight = i32({8}), seven = i32({7}), x = f32({4, 6});
  expect_refusal<ShapeError>([&] { ops::build_dispatch(ref(), index, 0, {segments, eight, offsets, seven, eight}); },
                             {"build_dispatch", "output_indices_R is [7], wanted [8] or more rows"});
  expect_refusal<ShapeError>([&] { ops::build_dispatch(ref(), index, 0, {segments, eight, i64({4}), eight, eight}); },
                             {"build_dispatch", "row_offsets_T is [4], wanted [5]"});
  expect_refusal<ShapeError>([&] { ops::gather_rows(ref(), x, {segments, eight, offsets, eight, eight}, f32({7, 6})); },
                             {"gather_rows", "x_RD is [7, 6], wanted [8, 6] or more rows"});
  expect_refusal<ShapeError>([&] { ops::scatter_rows(ref(), f32({8, 5}), {segments, eight, offsets, eight, eight}, x, Write::kOverwrite); },
                             {"scatter_rows", "dx_RD is [8, 5]"});
  expect_refusal<ShapeError>([&] { ops::combine_forward(ref(), f32({8, 6}), f32({3, 2}), {segments, eight, offsets, eight, eight}, x); },
                             {"combine_forward", "weight_TK is [3, 2], wanted [4, 2]"});
  expect_refusal<ShapeError>([&] { ops::slot_weights(ref(), f32({4, 2}), {segments, eight, offsets, eight, eight}, f32({7})); },
                             {"slot_weights", "weight_R is [7]"});
  expect_refusal<ShapeError>([&] { ops::slot_weights_backward(ref(), f32({8}), {segments, eight, offsets, eight, eight}, f32({3, 2})); },
                             {"slot_weights_backward", "row_offsets_T is [5], wanted [4]"});
}

TEST(Arguments, ActivationsRefuseWrongShapes) {
  expect_refusal<ShapeError>([] { ops::swiglu_forward(ref(), f32({2, 3}), f32({2, 4}), {}, f32({2, 3})); },
                             {"swiglu_forward", "up_RF is [2, 4], wanted [2, 3]"});
  expect_refusal<ShapeError>([] { ops::swiglu_forward(ref(), f32({2, 3}), f32({2, 3}), i64({2}), f32({2, 3})); },
                             {"swiglu_forward", "num_rows is [2], wanted [1]"});
  expect_refusal<ShapeError>([] { ops::swiglu_backward(ref(), f32({2, 3}), f32({2, 3}), f32({2, 3}), f32({2, 3}), f32({3, 3})); },
                             {"swiglu_backward", "dup_RF is [3, 3]"});
  const Tensor x = f32({2, 3});
  expect_refusal<ShapeError>([&] { ops::expert_swiglu_backward(ref(), x, x, x, f32({3}), i64({2}), {x, x, x, f32({2})}); },
                             {"expert_swiglu_backward", "weight_R is [3], wanted [2]"});
}

TEST(Arguments, PartsOfANormRefuseWrongShapesAndTypes) {
  const Tensor x = f32({2, 3}), gain = f32({3}), two = f32({2}), three = f32({3});
  expect_refusal<ShapeError>([&] { ops::row_sum_squares(ref(), x, three); }, {"row_sum_squares", "sums_T is [3], wanted [2]"});
  expect_refusal<UnsupportedError>([&] { ops::rms_norm_rstd(ref(), bf16({2}), 3, 0, two); }, {"rms_norm_rstd", "sums_T is bf16, wanted f32"});
  expect_refusal<ShapeError>([&] { ops::rms_norm_apply(ref(), x, gain, three, x); }, {"rms_norm_apply", "rstd_T is [3], wanted [2]"});
  expect_refusal<ShapeError>([&] { ops::rms_norm_dots(ref(), {x, x, two, two, 6}, two); }, {"rms_norm_dots", "gain_D is [2], wanted [3]"});
  expect_refusal<ShapeError>([&] { ops::rms_norm_backward_apply(ref(), {x, x, gain, two, 6}, three, x, Write::kOverwrite, gain); },
                             {"rms_norm_backward_apply", "dots_T is [3], wanted [2]"});
}

TEST(Arguments, LossOperationsRefuseWrongShapes) {
  const Tensor two = f32({2}), three = f32({3});
  expect_refusal<ShapeError>([&] { ops::cross_entropy_statistics(ref(), f32({2, 5}), i32({3}), 0, {two, two, two}); },
                             {"cross_entropy_statistics", "labels_T is [3], wanted [2]"});
  expect_refusal<UnsupportedError>([&] { ops::cross_entropy_statistics(ref(), f32({2, 5}), i64({2}), 0, {two, two, two}); },
                                   {"cross_entropy_statistics", "labels_T is i64, wanted i32"});
  expect_refusal<ShapeError>([&] { ops::cross_entropy_loss(ref(), {two, two, two}, i32({2}), three, two); },
                             {"cross_entropy_loss", "loss_T is [3], wanted [2]"});
  expect_refusal<ShapeError>([&] { ops::cross_entropy_gradient(ref(), f32({2, 5}), i32({2}), 0, three, 1, f32({2, 5})); },
                             {"cross_entropy_gradient", "lse_T is [3], wanted [2]"});
  expect_refusal<ShapeError>([&] { ops::combine_softmax_statistics(ref(), f32({4, 2, 2}), {two, two, two}); },
                             {"combine_softmax_statistics", "parts_M3T is [4, 2, 2], wanted [M, 3, T]"});
  expect_refusal<ShapeError>([&] { ops::combine_softmax_statistics(ref(), f32({4, 3, 2}), {two, three, two}); },
                             {"combine_softmax_statistics", "sum_T is [3], wanted [2]"});
  expect_refusal<ShapeError>([] { ops::argmax(ref(), f32({2, 0}), i32({2})); }, {"argmax", "at least one column"});
}

TEST(Arguments, UpdatesAndMiscellaneousRefuseWrongShapes) {
  const Tensor four = f32({4}), five = f32({5});
  expect_refusal<ShapeError>([&] { ops::adamw_update(ref(), {}, five, four, four, four, four); }, {"adamw_update", "gradient is [5], wanted [4]"});
  expect_refusal<ShapeError>([&] { ops::adamw_update(ref(), {}, four, four, four, five, four); }, {"adamw_update", "exp_avg_sq is [5], wanted [4]"});
  expect_refusal<UnsupportedError>([&] { ops::sgd_update(ref(), 1, 0, 1, four, bf16({4}), four); }, {"sgd_update", "master is bf16, wanted f32"});
  expect_refusal<UnsupportedError>([] { (void)ops::sum_squares(ref(), i64({4})); }, {"sum_squares", "i64"});
  expect_refusal<ShapeError>([] { ops::embedding_forward(ref(), f32({9, 3}), i32({4}), f32({4, 2})); }, {"embedding_forward", "x_TD is [4, 2], wanted [4, 3]"});
  expect_refusal<ShapeError>([] { ops::embedding_backward(ref(), f32({5, 3}), i32({4}), f32({9, 3})); },
                             {"embedding_backward", "dx_TD is [5, 3], wanted [4, 3]"});
  expect_refusal<ShapeError>([&] { ops::add(ref(), four, five, four); }, {"add", "b is [5], wanted 4 elements"});
  expect_refusal<ShapeError>([&] { ops::convert(ref(), four, five); }, {"convert", "out is [5], wanted 4 elements"});
  expect_refusal<UnsupportedError>([&] { ops::copy(ref(), four, bf16({4})); }, {"copy", "out is bf16, wanted f32"});
  expect_refusal<ShapeError>([] { ops::fill_zero(ref(), View()); }, {"fill_zero", "missing"});
}

}  // namespace
}  // namespace optimus
