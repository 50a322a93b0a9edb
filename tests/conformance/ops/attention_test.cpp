// Attention, rotary positions and clipping on every backend against the reference in double.
#include "optimus/ops/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "optimus/backend/ref/ref_backend.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;

// f32: exponentials and two chained products. bf16: a backend may round probabilities and their gradients to bf16 (2^-8 each) before it multiplies by them.
constexpr test::Bounds kBounds{.f32 = 5e-6, .bf16 = 0x1p-7, .same_for_any_threads = true};

struct Case {
  AttentionShape shape;
  Index document_length;
};  // 0: no documents
constexpr Case kCases[] = {
    {{.batch = 0, .queries = 4, .keys = 4, .heads = 2, .kv_heads = 2, .head_size = 8}, 0},
    {{.batch = 2, .queries = 0, .keys = 3, .heads = 2, .kv_heads = 1, .head_size = 8}, 0},
    {{.batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_size = 2}, 0},
    {{.batch = 2, .queries = 7, .keys = 7, .heads = 3, .kv_heads = 3, .head_size = 5}, 0},
    {{.batch = 1, .queries = 33, .keys = 33, .heads = 4, .kv_heads = 2, .head_size = 16}, 0},
    {{.batch = 1, .queries = 129, .keys = 129, .heads = 2, .kv_heads = 1, .head_size = 32}, 0},
    {{.batch = 1, .queries = 67, .keys = 67, .heads = 6, .kv_heads = 2, .head_size = 24}, 13},
    {{.batch = 2, .queries = 150, .keys = 150, .heads = 2, .kv_heads = 2, .head_size = 64}, 70},
    {{.batch = 2, .queries = 1, .keys = 37, .heads = 4, .kv_heads = 2, .head_size = 16}, 0},
    {{.batch = 1, .queries = 5, .keys = 70, .heads = 2, .kv_heads = 1, .head_size = 8}, 29},
};

struct Widths {
  Index num_queries, num_keys, width, kv_width;
};
Widths widths_of(const AttentionShape& s) { return {s.batch * s.queries, s.batch * s.keys, s.heads * s.head_size, s.kv_heads * s.head_size}; }

std::vector<double> document_starts(const Case& c) {
  std::vector<double> starts;
  for (Index i = 0; i < c.shape.batch * c.shape.keys; ++i) {
    const Index position = i % c.shape.keys;
    starts.push_back(c.document_length == 0 ? 0 : static_cast<double>(position / c.document_length * c.document_length));
  }
  return starts;
}

void add_inputs(OpCase& op, const Case& c) {
  const Widths n = widths_of(c.shape);
  op.in("q", Kind::kData, {n.num_queries, n.width}, normal("q", n.num_queries * n.width));
  op.in("k", Kind::kData, {n.num_keys, n.kv_width}, normal("k", n.num_keys * n.kv_width));
  op.in("v", Kind::kData, {n.num_keys, n.kv_width}, normal("v", n.num_keys * n.kv_width));
  if (c.document_length != 0) op.in("document_start", Kind::kI32, {c.shape.batch, c.shape.keys}, document_starts(c));
}

ConstView document_start(const Case& c, const OpCase::Arguments& a) { return c.document_length == 0 ? ConstView() : ConstView(a["document_start"]); }

/// Output and log-sum-exp as backward finds them: by the reference, from inputs rounded to `data`.
struct Saved {
  std::vector<double> o, lse;
};
Saved saved_by_forward(const Case& c, DType data) {
  const AttentionShape& s = c.shape;
  const Widths n = widths_of(s);
  const auto rounded = [&](std::string_view name, Shape shape) {
    return test::Tensor(DType::kF64, shape, test::Tensor(data, shape, normal(name, shape.count())).values());
  };
  const test::Tensor q = rounded("q", {n.num_queries, n.width}), k = rounded("k", {n.num_keys, n.kv_width}), v = rounded("v", {n.num_keys, n.kv_width});
  const test::Tensor starts(DType::kI32, {s.batch, s.keys}, document_starts(c)), o(DType::kF64, {n.num_queries, n.width}),
      lse(DType::kF64, {s.batch, s.heads, s.queries});
  ops::attention_forward(*make_ref_backend(), s, q, k, v, starts, o, lse);
  return {o.values(), lse.values()};
}

TEST(Attention, ForwardAgreesWithReference) {
  for (const Case& c : kCases) {
    const Widths n = widths_of(c.shape);
    OpCase op;
    add_inputs(op, c);
    op.out("o", Kind::kData, {n.num_queries, n.width}).out("lse", Kind::kWide, {c.shape.batch, c.shape.heads, c.shape.queries});
    op.check([&](Backend& backend, const auto& a) { ops::attention_forward(backend, c.shape, a["q"], a["k"], a["v"], document_start(c, a), a["o"], a["lse"]); },
             kBounds);
  }
}

void check_backward(const Case& c, DType data) {
  const Widths n = widths_of(c.shape);
  const Saved saved = saved_by_forward(c, data);
  OpCase op;
  add_inputs(op, c);
  op.in("o", Kind::kData, {n.num_queries, n.width}, saved.o).in("lse", Kind::kWide, {c.shape.batch, c.shape.heads, c.shape.queries}, saved.lse);
  op.in("d_o", Kind::kData, {n.num_queries, n.width}, normal("d_o", n.num_queries * n.width));
  op.out("dq", Kind::kData, {n.num_queries, n.width}).out("dk", Kind::kData, {n.num_keys, n.kv_width}).out("dv", Kind::kData, {n.num_keys, n.kv_width});
  // Backends may take sum_j p*dp as <o, d_o> from the stored o, which in bf16 is rounded once more. dp minus that sum is 0 for a single key: scale.
  const test::Bounds bounds{.f32 = 1e-5, .bf16 = 0x1p-6, .scale = 1, .same_for_any_threads = true};
  const auto call = [&](Backend& backend, const OpCase::Arguments& a) {
    ops::attention_backward(backend, c.shape, a["d_o"], {a["q"], a["k"], a["v"], document_start(c, a), a["o"], a["lse"]}, {a["dq"], a["dk"], a["dv"]});
  };
  op.check(call, bounds, {data});
}

TEST(Attention, BackwardAgreesWithReference) {
  for (const Case& c : kCases) {
    for (const DType data : {DType::kF32, DType::kBF16}) check_backward(c, data);
  }
}

TEST(Attention, SurvivesScoresThatWouldOverflowAnExponential) {
  const AttentionShape shape{.batch = 1, .queries = 70, .keys = 70, .heads = 1, .kv_heads = 1, .head_size = 16};
  OpCase op;
  op.in("q", Kind::kData, {70, 16}, normal("q", 70 * 16, 40))
      .in("k", Kind::kData, {70, 16}, normal("k", 70 * 16, 40))
      .in("v", Kind::kData, {70, 16}, normal("v", 70 * 16));
  op.out("o", Kind::kData, {70, 16}).out("lse", Kind::kWide, {1, 1, 70});
  // Scores of thousands, each known to 2^-24 of itself: a few 1e-4 in the exponent.
  const test::Bounds bounds{.f32 = 2e-3, .bf16 = 0x1p-6, .same_for_any_threads = true};
  op.check([&](Backend& backend, const auto& a) { ops::attention_forward(backend, shape, a["q"], a["k"], a["v"], {}, a["o"], a["lse"]); }, bounds);
}

TEST(Rope, AgreesWithReferenceBothWays) {
  struct Sizes {
    Index T, heads, head_size;
  };
  for (const auto& [T, heads, head_size] : {Sizes{0, 2, 4}, Sizes{1, 1, 2}, Sizes{7, 3, 6}, Sizes{33, 2, 64}, Sizes{129, 5, 16}, Sizes{3, 1, 34}}) {
    const Index P = 2 * T + 1, half = head_size / 2;
    std::vector<double> cos, sin;
    for (Index i = 0; i < P * half; ++i) cos.push_back(std::cos(0.1 * static_cast<double>(i))), sin.push_back(std::sin(0.1 * static_cast<double>(i)));
    for (const bool is_backward : {false, true}) {
      OpCase op;
      op.in_out("x", Kind::kData, {T, heads * head_size}, normal("x", T * heads * head_size))
          .in("positions", Kind::kI32, {T}, test::below("positions", T, static_cast<std::uint64_t>(P)));
      op.in("cos", Kind::kWide, {P, half}, cos).in("sin", Kind::kWide, {P, half}, sin);
      op.check([&](Backend& backend, const auto& a) { ops::rope(backend, a["x"], a["positions"], a["cos"], a["sin"], head_size, is_backward); },
               {.same_for_any_threads = true});
    }
  }
}

TEST(Clamp, AgreesWithReferenceAndWorksInPlace) {
  constexpr double kLimit = 0.75;
  for (const Index n : {0, 1, 31, 129, 1000}) {
    OpCase forward, in_place, backward, backward_in_place;
    const std::vector<double> x = normal("x", n), dy = normal("dy", n);
    forward.in("x", Kind::kData, {n}, x).out("y", Kind::kData, {n});
    in_place.in_out("x", Kind::kData, {n}, x);
    backward.in("dy", Kind::kData, {n}, dy).in("x", Kind::kData, {n}, x).out("dx", Kind::kData, {n});
    backward_in_place.in_out("dy", Kind::kData, {n}, dy).in("x", Kind::kData, {n}, x);
    const test::Bounds exact{.f32 = 0, .bf16 = 0, .same_for_any_threads = true};
    forward.check([](Backend& backend, const auto& a) { ops::clamp_forward(backend, a["x"], kLimit, a["y"]); }, exact);
    in_place.check([](Backend& backend, const auto& a) { ops::clamp_forward(backend, a["x"], kLimit, a["x"]); }, exact);
    backward.check([](Backend& backend, const auto& a) { ops::clamp_backward(backend, a["dy"], a["x"], kLimit, a["dx"]); }, exact);
    backward_in_place.check([](Backend& backend, const auto& a) { ops::clamp_backward(backend, a["dy"], a["x"], kLimit, a["dy"]); }, exact);
  }
}

}  // namespace
}  // namespace optimus
