#include <gtest/gtest.h>

#include "optimus/ops/moe.hpp"
#include "tests/gradient/ops/gradient_testing.hpp"

namespace optimus {
namespace {

using test::dot;
using test::expect_gradient;
using test::random_f64;
using test::ref;
using test::zeros_f64;

constexpr Index kRows = 4, kExperts = 5, kChoices = 2;
constexpr double kZScale = 0.3;

/// The chain logits -> p, lse -> weights, with a loss that depends on the weights, on p by group, and on the squared log-sum-exp.
struct RouterChain {
  bool normalise;
  Index num_groups;  ///< of the balancing loss; 0: none
  test::Tensor logits_TE = random_f64("logits", {kRows, kExperts}), p_TE = zeros_f64({kRows, kExperts}), lse_T = zeros_f64({kRows});
  test::Tensor index_TK = test::Tensor(DType::kI32, {kRows, kChoices}), weight_TK = zeros_f64({kRows, kChoices}),
               dweight_TK = random_f64("dweight", {kRows, kChoices});
  test::Tensor dp_GE = random_f64("dp", {num_groups, kExperts});

  /// The choice stays as it was made: it has no gradient.
  void choose() const {
    ops::router_softmax(ref(), logits_TE, p_TE, lse_T);
    ops::router_top_k(ref(), p_TE, index_TK);
  }
  [[nodiscard]] double loss() const {
    ops::router_softmax(ref(), logits_TE, p_TE, lse_T);
    ops::router_weights(ref(), p_TE, index_TK, normalise, weight_TK);
    double sum = dot(weight_TK, dweight_TK) + kZScale * dot(lse_T, lse_T);
    for (Index t = 0; num_groups > 0 && t < kRows; ++t) {
      for (Index e = 0; e < kExperts; ++e) sum += dp_GE[t / (kRows / num_groups) * kExperts + e] * p_TE[t * kExperts + e];
    }
    return sum;
  }
};

void check_router(bool normalise, Index num_groups) {
  const RouterChain chain{.normalise = normalise, .num_groups = num_groups};
  chain.choose();
  (void)chain.loss();
  const auto dlogits = zeros_f64({kRows, kExperts});
  MoeKernels::RouterGradient g{.p_TE = chain.p_TE,
                               .lse_T = chain.lse_T,
                               .index_TK = chain.index_TK,
                               .weight_TK = chain.weight_TK,
                               .dweight_TK = chain.dweight_TK,
                               .dp_GE = {},
                               .z_scale = kZScale,
                               .normalise = normalise};
  if (num_groups > 0) g.dp_GE = chain.dp_GE;
  ops::router_backward(ref(), g, dlogits);
  expect_gradient("dlogits", chain.logits_TE, dlogits, [&] { return chain.loss(); });
}

TEST(Router, BackwardIsTheGradientOfWeightsAndZLoss) { check_router(false, 0); }
TEST(Router, BackwardGoesThroughTheNormalisationOfWeights) { check_router(true, 0); }
TEST(Router, BackwardAddsTheBalancingLoss) { check_router(false, 1); }
TEST(Router, BackwardAddsTheBalancingLossOfEveryGroup) { check_router(true, 2); }

TEST(Router, LogitsBackwardIsTheGradientOfForward) {
  const auto x = random_f64("x", {4, 3}), w = random_f64("w", {5, 3}), dlogits = random_f64("dlogits", {4, 5}), logits = zeros_f64({4, 5}),
             dx = zeros_f64({4, 3}), dw = zeros_f64({5, 3});
  const auto loss = [&] {
    ops::router_logits_forward(ref(), x, w, logits);
    return dot(logits, dlogits);
  };
  ops::router_logits_backward(ref(), dlogits, x, w, dx, dw);
  expect_gradient("dx", x, dx, loss);
  expect_gradient("dw", w, dw, loss);
}

}  // namespace
}  // namespace optimus
