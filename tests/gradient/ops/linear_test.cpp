#include "optimus/ops/linear.hpp"

#include <gtest/gtest.h>

#include "tests/gradient/ops/gradient_testing.hpp"

namespace optimus {
namespace {

using test::dot;
using test::expect_gradient;
using test::random_f64;
using test::ref;
using test::zeros_f64;

TEST(Linear, BackwardIsTheGradientOfForward) {
  const auto x = random_f64("x", {5, 3}), w = random_f64("w", {4, 3}), dy = random_f64("dy", {5, 4}), y = zeros_f64({5, 4}), dx = zeros_f64({5, 3}),
             dw = zeros_f64({4, 3});
  const auto loss = [&] {
    ops::linear_forward(ref(), x, w, y);
    return dot(y, dy);
  };
  ops::linear_backward_input(ref(), dy, w, dx, Write::kOverwrite);
  ops::linear_backward_weight(ref(), dy, x, dw);
  expect_gradient("dx", x, dx, loss);
  expect_gradient("dw", w, dw, loss);
}

TEST(Linear, AccumulatedGradientsAddUp) {
  const auto x = random_f64("x", {5, 3}), w = random_f64("w", {4, 3}), dy = random_f64("dy", {5, 4}), y = zeros_f64({5, 4}), dx = zeros_f64({5, 3}),
             dw = zeros_f64({4, 3});
  const auto twice_the_loss = [&] {
    ops::linear_forward(ref(), x, w, y);
    return 2 * dot(y, dy);
  };
  for (int pass = 0; pass < 2; ++pass) {
    ops::linear_backward_input(ref(), dy, w, dx, pass == 0 ? Write::kOverwrite : Write::kAccumulate);
    ops::linear_backward_weight(ref(), dy, x, dw);
  }
  expect_gradient("dx", x, dx, twice_the_loss);
  expect_gradient("dw", w, dw, twice_the_loss);
}

TEST(GroupedLinear, BackwardIsTheGradientOfForwardWithAnEmptyExpert) {
  const auto x = random_f64("x", {7, 3}), w = random_f64("w", {3, 4, 3}), dy = random_f64("dy", {7, 4}), y = zeros_f64({7, 4}), dx = zeros_f64({7, 3}),
             dw = zeros_f64({3, 4, 3});
  const auto segments = test::indices(DType::kI64, {0, 2, 2, 7});
  const auto loss = [&] {
    ops::grouped_linear_forward(ref(), x, w, segments, y);
    return dot(y, dy);
  };
  ops::grouped_linear_backward_input(ref(), dy, w, segments, dx, Write::kOverwrite);
  ops::grouped_linear_backward_weight(ref(), dy, x, segments, dw);
  expect_gradient("dx", x, dx, loss);
  expect_gradient("dw", w, dw, loss);
}

}  // namespace
}  // namespace optimus
