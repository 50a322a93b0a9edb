#include "optimus/ops/norm.hpp"

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

TEST(RmsNormParts, TogetherHaveTheGradientOfTheWhole) {
  // Two parts of rows of five: sums and dots are added up between them.
  struct Part {
    explicit Part(const std::string& name, Index D)
        : x(random_f64(name + " x", {3, D})),
          gain(random_f64(name + " gain", {D})),
          dy(random_f64(name + " dy", {3, D})),
          y(zeros_f64({3, D})),
          dx(zeros_f64({3, D})),
          dgain(zeros_f64({D})),
          sums(zeros_f64({3})) {}
    test::Tensor x, gain, dy, y, dx, dgain, sums;
  };
  const Part parts[] = {Part("first", 2), Part("second", 3)};
  const auto rstd = zeros_f64({3}), dots = zeros_f64({3});
  const auto loss = [&] {
    for (const Part& part : parts) ops::row_sum_squares(ref(), part.x, part.sums);
    ops::add(ref(), parts[0].sums, parts[1].sums, rstd);
    ops::rms_norm_rstd(ref(), rstd, 5, kEps, rstd);
    for (const Part& part : parts) ops::rms_norm_apply(ref(), part.x, part.gain, rstd, part.y);
    return dot(parts[0].y, parts[0].dy) + dot(parts[1].y, parts[1].dy);
  };
  (void)loss();
  const auto as_part = [&](const Part& p) { return NormKernels::RmsNormPart{p.dy, p.x, p.gain, rstd, 5}; };
  for (const Part& part : parts) ops::rms_norm_dots(ref(), as_part(part), part.sums);
  ops::add(ref(), parts[0].sums, parts[1].sums, dots);
  for (const Part& part : parts) ops::rms_norm_backward_apply(ref(), as_part(part), dots, part.dx, Write::kOverwrite, part.dgain);
  for (const Part& part : parts) {
    expect_gradient("dx", part.x, part.dx, loss);
    expect_gradient("dgain", part.gain, part.dgain, loss);
  }
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
