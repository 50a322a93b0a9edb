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

/// A row of three times the width that is here.
TEST(RmsNormParts, EveryStepAgreesWithReference) {
  for (const auto& [T, D] : kSizes) {
    OpCase sums, rstd, apply;
    sums.in("x", Kind::kData, {T, D}, normal("x", T * D, 2)).out("sums", Kind::kWide, {T});
    sums.check([](Backend& backend, const auto& a) { ops::row_sum_squares(backend, a["x"], a["sums"]); }, kBounds);
    rstd.in("sums", Kind::kWide, {T}, positive("sums", T)).out("rstd", Kind::kWide, {T});
    rstd.check([&, width = 3 * D](Backend& backend, const auto& a) { ops::rms_norm_rstd(backend, a["sums"], width, kEps, a["rstd"]); }, kBounds);
    apply.in("x", Kind::kData, {T, D}, normal("x", T * D, 2)).in("gain", Kind::kData, {D}, positive("gain", D));
    apply.in("rstd", Kind::kWide, {T}, positive("rstd", T)).out("y", Kind::kData, {T, D});
    apply.check([](Backend& backend, const auto& a) { ops::rms_norm_apply(backend, a["x"], a["gain"], a["rstd"], a["y"]); }, kBounds);
  }
}

TEST(RmsNormParts, RstdMayReplaceItsSums) {
  OpCase op;
  op.in_out("sums", Kind::kWide, {129}, positive("sums", 129));
  op.check([](Backend& backend, const auto& a) { ops::rms_norm_rstd(backend, a["sums"], 7, kEps, a["sums"]); }, kBounds);
}

/// The part of rows 3 D wide whose arguments are those of a case.
NormKernels::RmsNormPart part_of(const OpCase::Arguments& a) {
  return {.dy_TD = a["dy"], .x_TD = a["x"], .gain_D = a["gain"], .rstd_T = a["rstd"], .width = 3 * a["x"].size(1)};
}
void add_part(OpCase& op, Index T, Index D, bool is_in_place = false) {
  if (is_in_place) op.in_out("dy", Kind::kData, {T, D}, normal("dy", T * D));
  else op.in("dy", Kind::kData, {T, D}, normal("dy", T * D));
  op.in("x", Kind::kData, {T, D}, normal("x", T * D)).in("gain", Kind::kData, {D}, positive("gain", D)).in("rstd", Kind::kWide, {T}, positive("rstd", T));
}

TEST(RmsNormParts, DotsAgreeWithReference) {
  for (const auto& [T, D] : kSizes) {
    OpCase op;
    add_part(op, T, D);
    op.out("dots", Kind::kWide, {T});
    op.check([](Backend& backend, const auto& a) { ops::rms_norm_dots(backend, part_of(a), a["dots"]); }, {.scale = 10, .same_for_any_threads = true});
  }
}

TEST(RmsNormParts, BackwardAgreesWithReferenceOverwritingAccumulatingAndInPlace) {
  for (const auto& [T, D] : kSizes) {
    for (const Kind gain_gradient : {Kind::kData, Kind::kWide}) {
      OpCase overwrite, accumulate, in_place;
      for (OpCase* op : {&overwrite, &accumulate, &in_place}) {
        add_part(*op, T, D, op == &in_place);
        op->in("dots", Kind::kWide, {T}, normal("dots", T, 3)).in_out("dgain", gain_gradient, {D}, normal("dgain", D));
      }
      overwrite.out("dx", Kind::kData, {T, D});
      accumulate.in_out("dx", Kind::kData, {T, D}, normal("dx", T * D));
      const auto call = [](std::string_view out, Write write) {
        return [=](Backend& backend, const OpCase::Arguments& a) { ops::rms_norm_backward_apply(backend, part_of(a), a["dots"], a[out], write, a["dgain"]); };
      };
      overwrite.check(call("dx", Write::kOverwrite), kBounds);
      accumulate.check(call("dx", Write::kAccumulate), kBounds);
      in_place.check(call("dy", Write::kOverwrite), kBounds);
    }
  }
}

TEST(RmsNormParts, OnePartThatIsTheWholeHasTheBitsOfTheFusedNormOnCpu) {
  constexpr Index T = 131, D = 33;
  for (const test::TestedBackend& tested : test::tested_backends()) {
    if (tested.name == "ref") continue;  // sums in double, rounded in between
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Backend& backend = *tested.backend;
      const test::Tensor x(dtype, {T, D}, normal("x", T * D)), gain(dtype, {D}, positive("gain", D)), dy(dtype, {T, D}, normal("dy", T * D));
      const test::Tensor y(dtype, {T, D}), again(dtype, {T, D}), rstd(DType::kF32, {T}), sums(DType::kF32, {T}), dots(DType::kF32, {T});
      ops::rms_norm_forward(backend, x, gain, kEps, y, rstd);
      ops::row_sum_squares(backend, x, sums);
      ops::rms_norm_rstd(backend, sums, D, kEps, sums);
      ops::rms_norm_apply(backend, x, gain, sums, again);
      EXPECT_EQ(sums.values(), rstd.values()) << tested.name;
      EXPECT_EQ(again.values(), y.values()) << tested.name;

      const test::Tensor dgain(DType::kF32, {D}, test::constant(0, D)), dgain_again(DType::kF32, {D}, test::constant(0, D));
      ops::rms_norm_backward(backend, dy, x, gain, rstd, y, Write::kOverwrite, dgain);
      const NormKernels::RmsNormPart whole{.dy_TD = dy, .x_TD = x, .gain_D = gain, .rstd_T = rstd, .width = D};
      ops::rms_norm_dots(backend, whole, dots);
      ops::rms_norm_backward_apply(backend, whole, dots, again, Write::kOverwrite, dgain_again);
      EXPECT_EQ(again.values(), y.values()) << tested.name;
      EXPECT_EQ(dgain_again.values(), dgain.values()) << tested.name;
    }
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
