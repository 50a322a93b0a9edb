// Normalisations on every backend against the reference in double.
#include "optimus/ops/norm.hpp"

#include <gtest/gtest.h>

#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;

struct Sizes {
  Index T, D;
};
constexpr Sizes kSizes[] = {{0, 8}, {1, 1}, {2, 7}, {17, 33}, {5, 129}, {64, 64}, {131, 31}, {3, 1024}};
constexpr double kEps = 1e-5;
// Header: bitwise equal for any number of threads.
constexpr test::Bounds kBounds{.same_for_any_threads = true};

/// rstd of normal rows is near 1; any number in its place tests the formula as well.
std::vector<double> positive(std::string_view name, Index count) {
  std::vector<double> values = normal(name, count);
  for (double& value : values) value = 1 + 0.1 * value;
  return values;
}

TEST(RmsNorm, ForwardAgreesWithReference) {
  for (const auto& [T, D] : kSizes) {
    OpCase op;
    op.in("x", Kind::kData, {T, D}, normal("x", T * D, 2))
        .in("gain", Kind::kData, {D}, positive("gain", D))
        .out("y", Kind::kData, {T, D})
        .out("rstd", Kind::kWide, {T});
    op.check([](Backend& backend, const auto& a) { ops::rms_norm_forward(backend, a["x"], a["gain"], kEps, a["y"], a["rstd"]); }, kBounds);
  }
}

TEST(RmsNorm, BackwardAgreesWithReferenceOverwritingAndAccumulating) {
  for (const auto& [T, D] : kSizes) {
    for (const Kind gain_gradient : {Kind::kData, Kind::kWide}) {
      for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
        OpCase op;
        op.in("dy", Kind::kData, {T, D}, normal("dy", T * D))
            .in("x", Kind::kData, {T, D}, normal("x", T * D))
            .in("gain", Kind::kData, {D}, positive("gain", D));
        op.in("rstd", Kind::kWide, {T}, positive("rstd", T)).in_out("dgain", gain_gradient, {D}, normal("dgain", D));
        if (write == Write::kOverwrite) op.out("dx", Kind::kData, {T, D});
        if (write == Write::kAccumulate) op.in_out("dx", Kind::kData, {T, D}, normal("dx", T * D));
        op.check([&](Backend& backend, const auto& a) { ops::rms_norm_backward(backend, a["dy"], a["x"], a["gain"], a["rstd"], a["dx"], write, a["dgain"]); },
                 kBounds);
      }
    }
  }
}

TEST(RmsNorm, BackwardMayOverwriteItsOwnOutputGradient) {
  for (const auto& [T, D] : kSizes) {
    OpCase op;
    op.in_out("dy", Kind::kData, {T, D}, normal("dy", T * D))
        .in("x", Kind::kData, {T, D}, normal("x", T * D))
        .in("gain", Kind::kData, {D}, positive("gain", D));
    op.in("rstd", Kind::kWide, {T}, positive("rstd", T)).in_out("dgain", Kind::kWide, {D}, normal("dgain", D));
    op.check(
        [](Backend& backend, const auto& a) { ops::rms_norm_backward(backend, a["dy"], a["x"], a["gain"], a["rstd"], a["dy"], Write::kOverwrite, a["dgain"]); },
        kBounds);
  }
}

TEST(LayerNorm, ForwardAgreesWithReference) {
  for (const auto& [T, D] : kSizes) {
    if (D == 1) continue;  // y and mean(x - mean) are 0: relative bounds say nothing
    std::vector<double> x = normal("x", T * D, 2);
    for (double& value : x) value += 1;  // a mean that is not 0
    OpCase op;
    op.in("x", Kind::kData, {T, D}, x).out("y", Kind::kData, {T, D}).out("mean", Kind::kWide, {T}).out("rstd", Kind::kWide, {T});
    op.check([](Backend& backend, const auto& a) { ops::layer_norm_forward(backend, a["x"], kEps, a["y"], a["mean"], a["rstd"]); }, kBounds);
  }
}

TEST(LayerNorm, BackwardAgreesWithReferenceOverwritingAccumulatingAndInPlace) {
  for (const auto& [T, D] : kSizes) {
    OpCase overwrite, accumulate, in_place;
    for (OpCase* op : {&overwrite, &accumulate, &in_place})
      op->in("x", Kind::kData, {T, D}, normal("x", T * D))
          .in("mean", Kind::kWide, {T}, normal("mean", T, 0.1))
          .in("rstd", Kind::kWide, {T}, positive("rstd", T));
    overwrite.in("dy", Kind::kData, {T, D}, normal("dy", T * D)).out("dx", Kind::kData, {T, D});
    accumulate.in("dy", Kind::kData, {T, D}, normal("dy", T * D)).in_out("dx", Kind::kData, {T, D}, normal("dx", T * D));
    in_place.in_out("dy", Kind::kData, {T, D}, normal("dy", T * D));
    overwrite.check(
        [](Backend& backend, const auto& a) { ops::layer_norm_backward(backend, a["dy"], a["x"], a["mean"], a["rstd"], a["dx"], Write::kOverwrite); }, kBounds);
    accumulate.check(
        [](Backend& backend, const auto& a) { ops::layer_norm_backward(backend, a["dy"], a["x"], a["mean"], a["rstd"], a["dx"], Write::kAccumulate); },
        kBounds);
    in_place.check(
        [](Backend& backend, const auto& a) { ops::layer_norm_backward(backend, a["dy"], a["x"], a["mean"], a["rstd"], a["dy"], Write::kOverwrite); }, kBounds);
  }
}

}  // namespace
}  // namespace optimus
