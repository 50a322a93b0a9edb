#include "optimus/ops/attention.hpp"

#include <fmt/format.h>

#include "optimus/base/error.hpp"
#include "optimus/ops/arguments.hpp"

namespace optimus::ops {
namespace {

struct AttentionInputs {
  ConstView q, k, v, document_start, o, lse;
};

void expect_sizes(std::string_view operation, const AttentionShape& s) {
  const bool are_whole = s.batch >= 0 && s.queries >= 0 && s.keys >= s.queries && s.head_size >= 0;
  const bool are_groups = s.heads >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0;
  if (are_whole && are_groups) return;
  throw ShapeError(
      fmt::format("[ops] {}: batch {}, queries {}, keys {}, heads {}, kv_heads {}, head_size {}; wanted queries <= keys and heads a multiple of kv_heads",
                  operation, s.batch, s.queries, s.keys, s.heads, s.kv_heads, s.head_size));
}

void expect_inputs(const Arguments& arguments, const AttentionShape& s, const AttentionInputs& in) {
  const Index num_queries = checked_mul(s.batch, s.queries), num_keys = checked_mul(s.batch, s.keys);
  const Index width = checked_mul(s.heads, s.head_size), kv_width = checked_mul(s.kv_heads, s.head_size);
  arguments.expect_shape("q", in.q, {num_queries, width});
  arguments.expect_shape("k", in.k, {num_keys, kv_width});
  arguments.expect_shape("v", in.v, {num_keys, kv_width});
  arguments.expect_shape("o", in.o, {num_queries, width});
  arguments.expect_shape("lse", in.lse, {s.batch, s.heads, s.queries});
  arguments.expect_compute("q", in.q);
  arguments.expect_same("k", in.k, in.q);
  arguments.expect_same("v", in.v, in.q);
  arguments.expect_same("o", in.o, in.q);
  arguments.expect_wide("lse", in.lse, in.q);
  if (!in.document_start.exists()) return;
  arguments.expect_shape("document_start", in.document_start, {s.batch, s.keys});
  arguments.expect_dtype("document_start", in.document_start, DType::kI32);
}

}  // namespace

void attention_forward(Backend& backend, const AttentionShape& shape, ConstView q, ConstView k, ConstView v, ConstView document_start, View o, View lse) {
  const Arguments arguments(backend, "attention_forward");
  expect_sizes("attention_forward", shape);
  expect_inputs(arguments, shape, {.q = q, .k = k, .v = v, .document_start = document_start, .o = o, .lse = lse});
  backend.attention_forward(shape, q, k, v, document_start, o, lse);
}

void attention_backward(Backend& backend, const AttentionShape& shape, ConstView d_o, const AttentionKernels::AttentionSaved& saved,
                        const AttentionKernels::AttentionGradients& gradients) {
  const Arguments arguments(backend, "attention_backward");
  expect_sizes("attention_backward", shape);
  expect_inputs(arguments, shape, {.q = saved.q, .k = saved.k, .v = saved.v, .document_start = saved.document_start, .o = saved.o, .lse = saved.lse});
  struct Gradient {
    std::string_view name;
    ConstView view;
    ConstView of;
  };
  const Gradient outputs[] = {{"dq", gradients.dq, saved.q}, {"dk", gradients.dk, saved.k}, {"dv", gradients.dv, saved.v}};
  arguments.expect_shape("d_o", d_o, saved.o.shape());
  arguments.expect_same("d_o", d_o, saved.q);
  for (const Gradient& out : outputs) {
    arguments.expect_shape(out.name, out.view, out.of.shape());
    arguments.expect_same(out.name, out.view, saved.q);
  }
  backend.attention_backward(shape, d_o, saved, gradients);
}

void rope(Backend& backend, View x, ConstView positions_T, ConstView cos, ConstView sin, Index head_size, bool is_backward) {
  const Arguments arguments(backend, "rope");
  arguments.expect_ndim("x", x, 2);
  // The rule is only written out when it is broken: no call may allocate.
  const bool has_whole_heads = head_size >= 2 && head_size % 2 == 0 && x.size(1) % head_size == 0;
  if (!has_whole_heads) arguments.expect(false, fmt::format("rows of whole heads of an even size, head_size is {}", head_size), "x", x);
  arguments.expect_shape("positions_T", positions_T, {x.size(0)});
  arguments.expect_dtype("positions_T", positions_T, DType::kI32);
  arguments.expect_ndim("cos", cos, 2);
  arguments.expect_shape("cos", cos, {cos.size(0), head_size / 2});
  arguments.expect_shape("sin", sin, cos.shape());
  arguments.expect_compute("x", x);
  arguments.expect_wide("cos", cos, x);
  arguments.expect_wide("sin", sin, x);
  backend.rope(x, positions_T, cos, sin, head_size, is_backward);
}

void clamp_forward(Backend& backend, ConstView x, double limit, View y) {
  const Arguments arguments(backend, "clamp_forward");
  arguments.expect_count("x", x, x.count());
  arguments.expect_count("y", y, x.count());
  arguments.expect_compute("x", x);
  arguments.expect_same("y", y, x);
  backend.clamp_forward(x, limit, y);
}

void clamp_backward(Backend& backend, ConstView dy, ConstView x, double limit, View dx) {
  const Arguments arguments(backend, "clamp_backward");
  arguments.expect_count("x", x, x.count());
  arguments.expect_count("dy", dy, x.count());
  arguments.expect_count("dx", dx, x.count());
  arguments.expect_compute("x", x);
  arguments.expect_same("dy", dy, x);
  arguments.expect_same("dx", dx, x);
  backend.clamp_backward(dy, x, limit, dx);
}

}  // namespace optimus::ops
