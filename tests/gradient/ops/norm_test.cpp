#include "optimus/ops/norm.hpp"

#include <gtest/gtest.h>

#include "tests/gradient/ops/gradient_testing.hpp"

namespace optimus {
namespace {

using test::dot;
using test::expect_gradient;
using test::random_f64;
using test::ref;
using test::zeros_f64;

constexpr double kEps = 1e-2;  // large enough to show where it enters

TEST(RmsNorm, BackwardIsTheGradientOfForward) {
  const auto x = random_f64("x", {3, 5}), gain = random_f64("gain", {5}), dy = random_f64("dy", {3, 5}), y = zeros_f64({3, 5}), rstd = zeros_f64({3}),
             dx = zeros_f64({3, 5}), dgain = zeros_f64({5});
  const auto loss = [&] {
    ops::rms_norm_forward(ref(), x, gain, kEps, y, rstd);
    return dot(y, dy);
  };
  (void)loss();
  ops::rms_norm_backward(ref(), dy, x, gain, rstd, dx, Write::kOverwrite, dgain);
  expect_gradient("dx", x, dx, loss);
  expect_gradient("dgain", gain, dgain, loss);
}

TEST(LayerNorm, BackwardIsTheGradientOfForward) {
  const auto x = random_f64("x", {3, 5}), dy = random_f64("dy", {3, 5}), y = zeros_f64({3, 5}), mean = zeros_f64({3}), rstd = zeros_f64({3}),
             dx = zeros_f64({3, 5});
  const auto loss = [&] {
    ops::layer_norm_forward(ref(), x, kEps, y, mean, rstd);
    return dot(y, dy);
  };
  (void)loss();
  ops::layer_norm_backward(ref(), dy, x, mean, rstd, dx, Write::kOverwrite);
  expect_gradient("dx", x, dx, loss);
}

TEST(LayerNorm, AccumulatedGradientsAddUp) {
  const auto x = random_f64("x", {3, 5}), dy = random_f64("dy", {3, 5}), y = zeros_f64({3, 5}), mean = zeros_f64({3}), rstd = zeros_f64({3}),
             dx = zeros_f64({3, 5});
  const auto twice_the_loss = [&] {
    ops::layer_norm_forward(ref(), x, kEps, y, mean, rstd);
    return 2 * dot(y, dy);
  };
  (void)twice_the_loss();
  for (int pass = 0; pass < 2; ++pass) ops::layer_norm_backward(ref(), dy, x, mean, rstd, dx, Write::kAccumulate);
  expect_gradient("dx", x, dx, twice_the_loss);
}

}  // namespace
}  // namespace optimus
