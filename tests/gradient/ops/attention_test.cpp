#include "optimus/ops/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gradient/ops/gradient_testing.hpp"

namespace optimus {
namespace {

using test::dot;
using test::expect_gradient;
using test::random_f64;
using test::ref;
using test::zeros_f64;

void check_attention(const AttentionShape& s, const std::vector<double>& document_start) {
  const Index num_queries = s.batch * s.queries, num_keys = s.batch * s.keys, width = s.heads * s.head_size, kv_width = s.kv_heads * s.head_size;
  const auto q = random_f64("q", {num_queries, width}), k = random_f64("k", {num_keys, kv_width}), v = random_f64("v", {num_keys, kv_width}),
             d_o = random_f64("d_o", {num_queries, width});
  const auto o = zeros_f64({num_queries, width}), lse = zeros_f64({s.batch, s.heads, s.queries});
  const auto dq = zeros_f64({num_queries, width}), dk = zeros_f64({num_keys, kv_width}), dv = zeros_f64({num_keys, kv_width});
  const auto starts = test::indices(DType::kI32, document_start);
  const ConstView documents = document_start.empty() ? ConstView() : ConstView(starts.view().reshaped({s.batch, s.keys}));
  const auto loss = [&] {
    ops::attention_forward(ref(), s, q, k, v, documents, o, lse);
    return dot(o, d_o);
  };
  (void)loss();
  ops::attention_backward(ref(), s, d_o, {q, k, v, documents, o, lse}, {dq, dk, dv});
  expect_gradient("dq", q, dq, loss);
  expect_gradient("dk", k, dk, loss);
  expect_gradient("dv", v, dv, loss);
}

TEST(Attention, BackwardIsTheGradientOfForward) { check_attention({.batch = 2, .queries = 5, .keys = 5, .heads = 2, .kv_heads = 2, .head_size = 3}, {}); }

TEST(Attention, BackwardSumsOverTheHeadsThatShareKeysAndValues) {
  check_attention({.batch = 1, .queries = 4, .keys = 4, .heads = 6, .kv_heads = 2, .head_size = 2}, {});
}

TEST(Attention, BackwardStopsAtTheStartOfADocument) {
  check_attention({.batch = 2, .queries = 5, .keys = 5, .heads = 2, .kv_heads = 1, .head_size = 3}, {0, 0, 2, 2, 2, /**/ 0, 1, 1, 1, 4});
}

TEST(Attention, BackwardOfTheLastQueriesReachesEarlierKeys) {
  check_attention({.batch = 2, .queries = 2, .keys = 5, .heads = 2, .kv_heads = 1, .head_size = 3}, {0, 0, 2, 2, 2, /**/ 0, 1, 1, 1, 1});
}

TEST(Rope, BackwardIsTheGradientOfForward) {
  const Index T = 3, heads = 2, head_size = 4;
  const auto x = random_f64("x", {T, heads * head_size}), dy = random_f64("dy", {T, heads * head_size}), cos = zeros_f64({5, 2}), sin = zeros_f64({5, 2}),
             y = zeros_f64({T, heads * head_size});
  for (Index i = 0; i < 10; ++i) cos.set(i, std::cos(0.7 * static_cast<double>(i))), sin.set(i, std::sin(0.7 * static_cast<double>(i)));
  const auto positions = test::indices(DType::kI32, {4, 0, 3});
  const auto loss = [&] {
    ref().copy(x, y);
    ops::rope(ref(), y, positions, cos, sin, head_size, false);
    return dot(y, dy);
  };
  const test::Tensor dx(DType::kF64, {T, heads * head_size}, dy.values());
  ops::rope(ref(), dx, positions, cos, sin, head_size, true);
  expect_gradient("dx", x, dx, loss);
}

TEST(Clamp, BackwardIsTheGradientOfForward) {
  const test::Tensor x(DType::kF64, {6}, {-3, -1.01, -0.99, 0.5, 0.99, 1.5});
  const auto dy = random_f64("dy", {6}), y = zeros_f64({6}), dx = zeros_f64({6});
  const auto loss = [&] {
    ops::clamp_forward(ref(), x, 1.0, y);
    return dot(y, dy);
  };
  ops::clamp_backward(ref(), dy, x, 1.0, dx);
  expect_gradient("dx", x, dx, loss);
}

}  // namespace
}  // namespace optimus
