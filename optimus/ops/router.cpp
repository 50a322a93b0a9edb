#include "optimus/ops/arguments.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus::ops {
namespace {

/// Choices index_TK [T, K] among the E columns of p_TE.
void expect_choices(const Arguments& arguments, ConstView index_TK, ConstView p_TE) {
  arguments.expect_ndim("index_TK", index_TK, 2);
  arguments.expect_shape("index_TK", index_TK, {p_TE.size(0), index_TK.size(1)});
  arguments.expect(index_TK.size(1) <= p_TE.size(1), "no more choices than the experts of p_TE", "index_TK", index_TK);
  arguments.expect_dtype("index_TK", index_TK, DType::kI32);
}

/// f32 or f64.
void expect_float(const Arguments& arguments, std::string_view name, ConstView view) {
  arguments.expect_compute(name, view);
  arguments.expect_wide(name, view, view);
}

/// [G, E] for T rows: G divides T.
void expect_groups(const Arguments& arguments, std::string_view name, ConstView view_GE, Index num_rows) {
  arguments.expect_ndim(name, view_GE, 2);
  arguments.expect(view_GE.size(0) > 0 && num_rows % view_GE.size(0) == 0, "groups of equally many rows", name, view_GE);
}

}  // namespace

void router_logits_forward(Backend& backend, ConstView x_TD, ConstView w_ED, View logits_TE) {
  const Arguments arguments(backend, "router_logits_forward");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_ndim("w_ED", w_ED, 2);
  arguments.expect_shape("w_ED", w_ED, {w_ED.size(0), x_TD.size(1)});
  arguments.expect_shape("logits_TE", logits_TE, {x_TD.size(0), w_ED.size(0)});
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("w_ED", w_ED, x_TD);
  arguments.expect_wide("logits_TE", logits_TE, x_TD);
  backend.router_logits_forward(x_TD, w_ED, logits_TE);
}

void router_logits_backward(Backend& backend, ConstView dlogits_TE, ConstView x_TD, ConstView w_ED, View dx_TD, View dw_ED) {
  const Arguments arguments(backend, "router_logits_backward");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_ndim("w_ED", w_ED, 2);
  arguments.expect_shape("w_ED", w_ED, {w_ED.size(0), x_TD.size(1)});
  arguments.expect_shape("dlogits_TE", dlogits_TE, {x_TD.size(0), w_ED.size(0)});
  arguments.expect_shape("dx_TD", dx_TD, x_TD.shape());
  arguments.expect_shape("dw_ED", dw_ED, w_ED.shape());
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("w_ED", w_ED, x_TD);
  arguments.expect_wide("dlogits_TE", dlogits_TE, x_TD);
  arguments.expect_same_or_f32("dx_TD", dx_TD, x_TD);
  arguments.expect_same_or_f32("dw_ED", dw_ED, w_ED);
  backend.router_logits_backward(dlogits_TE, x_TD, w_ED, dx_TD, dw_ED);
}

void router_softmax(Backend& backend, ConstView logits_TE, View p_TE, View lse_T) {
  const Arguments arguments(backend, "router_softmax");
  arguments.expect_ndim("logits_TE", logits_TE, 2);
  arguments.expect(logits_TE.size(0) == 0 || logits_TE.size(1) > 0, "at least one expert", "logits_TE", logits_TE);
  arguments.expect_shape("p_TE", p_TE, logits_TE.shape());
  arguments.expect_shape("lse_T", lse_T, {logits_TE.size(0)});
  expect_float(arguments, "logits_TE", logits_TE);
  arguments.expect_same("p_TE", p_TE, logits_TE);
  arguments.expect_same("lse_T", lse_T, logits_TE);
  backend.router_softmax(logits_TE, p_TE, lse_T);
}

void router_top_k(Backend& backend, ConstView p_TE, View index_TK) {
  const Arguments arguments(backend, "router_top_k");
  arguments.expect_ndim("p_TE", p_TE, 2);
  expect_float(arguments, "p_TE", p_TE);
  expect_choices(arguments, index_TK, p_TE);
  backend.router_top_k(p_TE, index_TK);
}

void router_uniform(Backend& backend, Index first_row, Index num_experts, View index_TK) {
  const Arguments arguments(backend, "router_uniform");
  arguments.expect_ndim("index_TK", index_TK, 2);
  arguments.expect(num_experts > 0 && index_TK.size(1) <= num_experts, "no more choices than num_experts, at least one expert", "index_TK", index_TK);
  arguments.expect(first_row >= 0, "first_row of 0 or more", "index_TK", index_TK);
  arguments.expect_dtype("index_TK", index_TK, DType::kI32);
  backend.router_uniform(first_row, num_experts, index_TK);
}

void router_weights(Backend& backend, ConstView p_TE, ConstView index_TK, bool normalise, View weight_TK) {
  const Arguments arguments(backend, "router_weights");
  arguments.expect_ndim("p_TE", p_TE, 2);
  expect_float(arguments, "p_TE", p_TE);
  expect_choices(arguments, index_TK, p_TE);
  arguments.expect_shape("weight_TK", weight_TK, index_TK.shape());
  arguments.expect_same("weight_TK", weight_TK, p_TE);
  backend.router_weights(p_TE, index_TK, normalise, weight_TK);
}

void router_backward(Backend& backend, const MoeKernels::RouterGradient& g, View dlogits_TE) {
  const Arguments arguments(backend, "router_backward");
  arguments.expect_ndim("p_TE", g.p_TE, 2);
  expect_float(arguments, "p_TE", g.p_TE);
  expect_choices(arguments, g.index_TK, g.p_TE);
  arguments.expect_shape("lse_T", g.lse_T, {g.p_TE.size(0)});
  arguments.expect_shape("weight_TK", g.weight_TK, g.index_TK.shape());
  arguments.expect_shape("dweight_TK", g.dweight_TK, g.index_TK.shape());
  arguments.expect_shape("dlogits_TE", dlogits_TE, g.p_TE.shape());
  arguments.expect_same("lse_T", g.lse_T, g.p_TE);
  arguments.expect_same("weight_TK", g.weight_TK, g.p_TE);
  arguments.expect_same("dweight_TK", g.dweight_TK, g.p_TE);
  arguments.expect_same("dlogits_TE", dlogits_TE, g.p_TE);
  if (g.dp_GE.exists()) {
    expect_groups(arguments, "dp_GE", g.dp_GE, g.p_TE.size(0));
    arguments.expect_shape("dp_GE", g.dp_GE, {g.dp_GE.size(0), g.p_TE.size(1)});
    arguments.expect_same("dp_GE", g.dp_GE, g.p_TE);
  }
  backend.router_backward(g, dlogits_TE);
}

void expert_counts(Backend& backend, ConstView index_TK, View counts_GE) {
  const Arguments arguments(backend, "expert_counts");
  arguments.expect_ndim("index_TK", index_TK, 2);
  arguments.expect_dtype("index_TK", index_TK, DType::kI32);
  expect_groups(arguments, "counts_GE", counts_GE, index_TK.size(0));
  arguments.expect_dtype("counts_GE", counts_GE, DType::kI64);
  backend.expert_counts(index_TK, counts_GE);
}

void column_sums(Backend& backend, ConstView p_TE, View sums_GE) {
  const Arguments arguments(backend, "column_sums");
  arguments.expect_ndim("p_TE", p_TE, 2);
  expect_float(arguments, "p_TE", p_TE);
  expect_groups(arguments, "sums_GE", sums_GE, p_TE.size(0));
  arguments.expect_shape("sums_GE", sums_GE, {sums_GE.size(0), p_TE.size(1)});
  arguments.expect_dtype("sums_GE", sums_GE, DType::kF64);
  backend.column_sums(p_TE, sums_GE);
}

}  // namespace optimus::ops
