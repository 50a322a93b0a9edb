#include "optimus/ops/loss.hpp"

#include <gtest/gtest.h>

#include "optimus/ops/misc.hpp"
#include "tests/gradient/ops/gradient_testing.hpp"

namespace optimus {
namespace {

using test::dot;
using test::expect_gradient;
using test::random_f64;
using test::ref;
using test::zeros_f64;

TEST(CrossEntropy, GradientIsTheGradientOfTheSummedLossWithIgnoredLabels) {
  constexpr Index T = 4, V = 5, kVocabBegin = 10;
  constexpr double kScale = 0.25;
  const auto logits = random_f64("logits", {T, V}), dlogits = zeros_f64({T, V}), max = zeros_f64({T}), sum = zeros_f64({T}), target = zeros_f64({T}),
             loss_T = zeros_f64({T}), lse = zeros_f64({T});
  const auto labels = test::indices(DType::kI32, {14, static_cast<double>(ops::kIgnoredLabel), 10, 12});
  const auto loss = [&] {
    ops::cross_entropy_statistics(ref(), logits, labels, kVocabBegin, {max, sum, target});
    ops::cross_entropy_loss(ref(), {max, sum, target}, labels, loss_T, lse);
    double total = 0;
    for (const double value : loss_T.values()) total += kScale * value;
    return total;
  };
  (void)loss();
  ops::cross_entropy_gradient(ref(), logits, labels, kVocabBegin, lse, kScale, dlogits);
  expect_gradient("dlogits", logits, dlogits, loss);
}

TEST(Embedding, BackwardIsTheGradientOfForward) {
  const auto w = random_f64("w", {4, 3}), dx = random_f64("dx", {5, 3}), x = zeros_f64({5, 3}), dw = zeros_f64({4, 3});
  const auto ids = test::indices(DType::kI32, {2, 0, 2, 3, 2});
  const auto loss = [&] {
    ops::embedding_forward(ref(), w, ids, x);
    return dot(x, dx);
  };
  ops::embedding_backward(ref(), dx, ids, dw);
  expect_gradient("dw", w, dw, loss);
}

}  // namespace
}  // namespace optimus
