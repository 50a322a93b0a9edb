// The router's operations on every backend against the reference in double.
#include <gtest/gtest.h>

#include <cmath>

#include "optimus/ops/moe.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;

struct Sizes {
  Index T, E, K;
};
constexpr Sizes kSizes[] = {{0, 4, 2}, {1, 1, 1}, {5, 3, 3}, {17, 8, 2}, {33, 64, 8}, {130, 17, 5}};

/// Rows of positive numbers that sum to 1.
std::vector<double> probabilities(Index T, Index E) {
  std::vector<double> p = normal("p", T * E);
  for (Index t = 0; t < T; ++t) {
    double sum = 0;
    for (Index e = 0; e < E; ++e) sum += p[static_cast<std::size_t>(t * E + e)] = std::exp(p[static_cast<std::size_t>(t * E + e)]);
    for (Index e = 0; e < E; ++e) p[static_cast<std::size_t>(t * E + e)] /= sum;
  }
  return p;
}

std::vector<double> choices(const Sizes& s) { return test::random_routing(s.T, s.E, s.K, s.E, 0, s.E).index; }

TEST(Router, LogitsAreInFloatForAnyInputType) {
  for (const auto& [T, D, E] : {Sizes{0, 8, 4}, Sizes{1, 1, 1}, Sizes{7, 13, 5}, Sizes{33, 129, 17}, Sizes{130, 64, 64}}) {
    OpCase op;
    op.in("x", Kind::kData, {T, D}, normal("x", T * D)).in("w", Kind::kData, {E, D}, normal("w", E * D)).out("logits", Kind::kWide, {T, E});
    op.check([](Backend& backend, const auto& a) { ops::router_logits_forward(backend, a["x"], a["w"], a["logits"]); });
  }
}

TEST(Router, LogitsBackwardAccumulatesAsReference) {
  for (const auto& [T, D, E] : {Sizes{0, 8, 4}, Sizes{1, 1, 1}, Sizes{7, 13, 5}, Sizes{33, 129, 17}, Sizes{130, 64, 64}}) {
    for (const Kind weight_gradient : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("dlogits", Kind::kWide, {T, E}, normal("dlogits", T * E))
          .in("x", Kind::kData, {T, D}, normal("x", T * D))
          .in("w", Kind::kData, {E, D}, normal("w", E * D));
      op.in_out("dx", Kind::kData, {T, D}, normal("dx", T * D)).in_out("dw", weight_gradient, {E, D}, normal("dw", E * D));
      op.check([](Backend& backend, const auto& a) { ops::router_logits_backward(backend, a["dlogits"], a["x"], a["w"], a["dx"], a["dw"]); });
    }
  }
}

TEST(Router, SoftmaxAgreesWithReferenceForSmallAndHugeLogits) {
  for (const auto& [T, E, K] : kSizes) {
    for (const double scale : {1.0, 50.0}) {
      OpCase op;
      op.in("logits", Kind::kWide, {T, E}, normal("logits", T * E, scale)).out("p", Kind::kWide, {T, E}).out("lse", Kind::kWide, {T});
      op.check([](Backend& backend, const auto& a) { ops::router_softmax(backend, a["logits"], a["p"], a["lse"]); }, {.f32 = 5e-6}, {DType::kF32});
    }
  }
}

TEST(Router, TopKAgreesWithReference) {
  for (const auto& [T, E, K] : kSizes) {
    OpCase op;
    op.in("p", Kind::kWide, {T, E}, probabilities(T, E)).out("index", Kind::kI32, {T, K});
    op.check([](Backend& backend, const auto& a) { ops::router_top_k(backend, a["p"], a["index"]); }, {}, {DType::kF32});
  }
}

TEST(Router, BreaksTiesTowardsLowerExpert) {
  for (const test::TestedBackend& tested : test::tested_backends()) {
    SCOPED_TRACE(tested.name);
    const test::Tensor p(DType::kF32, {4, 5}, {0.2, 0.2, 0.2, 0.2, 0.2, /**/ 0.1, 0.3, 0.1, 0.3, 0.2, /**/ 0, 0, 0.5, 0, 0.5, /**/ 0, 0, 0, 0, 1});
    const test::Tensor index(DType::kI32, {4, 3});
    ops::router_top_k(*tested.backend, p, index);
    EXPECT_EQ(index.values(), (std::vector<double>{0, 1, 2, /**/ 1, 3, 4, /**/ 2, 4, 0, /**/ 4, 0, 1}));
  }
}

TEST(Router, TiesAmongManyExpertsGoToTheLowerOnes) {
  // Values from a handful of levels: ties everywhere, across the vector widths of any implementation.
  for (const auto& [T, E, K] : {Sizes{9, 64, 8}, Sizes{5, 33, 7}, Sizes{3, 144, 8}}) {
    OpCase op;
    op.in("p", Kind::kWide, {T, E}, test::below("levels", T * E, 4)).out("index", Kind::kI32, {T, K});
    op.check([](Backend& backend, const auto& a) { ops::router_top_k(backend, a["p"], a["index"]); }, {}, {DType::kF32});
  }
}

TEST(Router, UniformRoutingGivesEveryExpertTheSameRows) {
  for (const auto& [T, E, K] : kSizes) {
    OpCase op;
    op.out("index", Kind::kI32, {T, K});
    op.check([E = E](Backend& backend, const auto& a) { ops::router_uniform(backend, 11, E, a["index"]); }, {}, {DType::kF32});
  }
}

TEST(Router, WeightsAgreeWithReference) {
  for (const Sizes& s : kSizes) {
    for (const bool normalise : {false, true}) {
      OpCase op;
      op.in("p", Kind::kWide, {s.T, s.E}, probabilities(s.T, s.E)).in("index", Kind::kI32, {s.T, s.K}, choices(s)).out("weight", Kind::kWide, {s.T, s.K});
      op.check([&](Backend& backend, const auto& a) { ops::router_weights(backend, a["p"], a["index"], normalise, a["weight"]); }, {}, {DType::kF32});
    }
  }
}

void check_router_backward(const Sizes& s, bool normalise, Index num_groups) {
  const std::vector<double> p = probabilities(s.T, s.E), index = choices(s);
  std::vector<double> weight;
  for (Index t = 0; t < s.T; ++t) {
    double sum = 0;
    for (Index k = 0; k < s.K; ++k) sum += p[static_cast<std::size_t>(t * s.E) + static_cast<std::size_t>(index[static_cast<std::size_t>(t * s.K + k)])];
    for (Index k = 0; k < s.K; ++k)
      weight.push_back(p[static_cast<std::size_t>(t * s.E) + static_cast<std::size_t>(index[static_cast<std::size_t>(t * s.K + k)])] / (normalise ? sum : 1));
  }
  OpCase op;
  op.in("p", Kind::kWide, {s.T, s.E}, p).in("lse", Kind::kWide, {s.T}, normal("lse", s.T)).in("index", Kind::kI32, {s.T, s.K}, index);
  op.in("weight", Kind::kWide, {s.T, s.K}, weight).in("dweight", Kind::kWide, {s.T, s.K}, normal("dweight", s.T * s.K)).out("dlogits", Kind::kWide, {s.T, s.E});
  if (num_groups > 0) op.in("dp", Kind::kWide, {num_groups, s.E}, normal("dp", num_groups * s.E));
  const auto call = [&](Backend& backend, const OpCase::Arguments& a) {
    MoeKernels::RouterGradient g{.p_TE = a["p"],
                                 .lse_T = a["lse"],
                                 .index_TK = a["index"],
                                 .weight_TK = a["weight"],
                                 .dweight_TK = a["dweight"],
                                 .dp_GE = {},
                                 .z_scale = 0.3,
                                 .normalise = normalise};
    if (num_groups > 0) g.dp_GE = a["dp"];
    ops::router_backward(backend, g, a["dlogits"]);
  };
  op.check(call, {.f32 = 5e-6}, {DType::kF32});
}

TEST(Router, BackwardAgreesWithReference) {
  for (const Sizes& s : kSizes) {
    for (const bool normalise : {false, true}) {
      for (const Index num_groups : {Index{0}, Index{1}, s.T}) check_router_backward(s, normalise, num_groups);
    }
  }
}

TEST(Router, CountsAndColumnSumsAgreeWithReferenceForEveryGrouping) {
  for (const Sizes& s : {Sizes{0, 4, 2}, Sizes{1, 1, 1}, Sizes{30, 17, 5}, Sizes{258, 64, 8}, Sizes{2050, 9, 3}}) {
    for (const Index G : {1, 2, 3}) {
      if (s.T % G != 0) continue;
      OpCase op;
      op.in("index", Kind::kI32, {s.T, s.K}, choices(s))
          .in("p", Kind::kWide, {s.T, s.E}, probabilities(s.T, s.E))
          .out("counts", Kind::kI64, {G, s.E})
          .out("sums", Kind::kF64, {G, s.E});
      const auto call = [](Backend& backend, const OpCase::Arguments& a) {
        ops::expert_counts(backend, a["index"], a["counts"]);
        ops::column_sums(backend, a["p"], a["sums"]);
      };
      op.check(call, {.f32 = 1e-12, .same_for_any_threads = true}, {DType::kF32});  // the sums are in f64
    }
  }
}

}  // namespace
}  // namespace optimus
