// The same bits whatever the number of threads, on shapes that are cut in many ways; and sums that are rounded once.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/norm.hpp"
#include "optimus/ops/update.hpp"
#include "tests/unit/backend_cpu/support.hpp"

namespace optimus {
namespace {

using test::Integers;
using test::Numbers;

/// Runs `call` into a fresh output with 1, 2, 3 and 5 threads.
void expect_same_bits(DType dtype, const Shape& shape, const std::function<void(Backend&, View)>& call) {
  const Numbers want(dtype, shape);
  call(*make_cpu_backend(1), want);
  for (const int threads : {2, 3, 5}) {
    const Numbers got(dtype, shape);
    call(*make_cpu_backend(threads), got);
    EXPECT_TRUE(got.has_same_bits(want)) << threads << " threads";
  }
}

constexpr Index T = 517, I = 300, O = 391;

TEST(Threads, DoNotChangeProducts) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Numbers x(dtype, {T, I}), w(dtype, {O, I}, 2), dy(dtype, {T, O}, 3);
    expect_same_bits(dtype, {T, O}, [&](Backend& backend, View y) { ops::linear_forward(backend, x, w, y); });
    expect_same_bits(dtype, {T, I}, [&](Backend& backend, View dx) { ops::linear_backward_input(backend, dy, w, dx, Write::kAccumulate); });
    expect_same_bits(DType::kF32, {O, I}, [&](Backend& backend, View dw) { ops::linear_backward_weight(backend, dy, x, dw); });
  }
}

TEST(Threads, DoNotChangeGroupedProducts) {
  const Numbers x(DType::kBF16, {T, I}), w(DType::kBF16, {4, O, I}, 2), dy(DType::kBF16, {T, O}, 3);
  const Integers<std::int64_t> segments({0, 3, 3, 400, T});
  expect_same_bits(DType::kBF16, {T, O}, [&](Backend& backend, View y) { ops::grouped_linear_forward(backend, x, w, segments, y); });
  expect_same_bits(DType::kF32, {4, O, I}, [&](Backend& backend, View dw) { ops::grouped_linear_backward_weight(backend, dy, x, segments, dw); });
}

TEST(Threads, DoNotChangeGradientsOfGainsAndEmbeddings) {
  const Numbers x(DType::kBF16, {T, I}), dy(DType::kBF16, {T, I}, 2), gain(DType::kBF16, {I}, 3), rstd(DType::kF32, {T}, 4), dx(DType::kBF16, {T, I});
  expect_same_bits(DType::kF32, {I}, [&](Backend& backend, View dgain) { ops::rms_norm_backward(backend, dy, x, gain, rstd, dx, Write::kOverwrite, dgain); });
  std::vector<std::int32_t> ids(T);
  for (Index t = 0; t < T; ++t) ids[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(t * t % 7);
  const Integers<std::int32_t> ids_T(ids);
  expect_same_bits(DType::kF32, {7, I}, [&](Backend& backend, View dw) { ops::embedding_backward(backend, dy, ids_T, dw); });
}

TEST(Threads, DoNotChangeSums) {
  const Numbers x(DType::kF32, {200003});
  const double want = ops::sum_squares(*make_cpu_backend(1), x);
  EXPECT_EQ(ops::sum_squares(*make_cpu_backend(2), x), want);
  EXPECT_EQ(ops::sum_squares(*make_cpu_backend(5), x), want);
}

TEST(Product, DeeperThanOnePassIsRoundedOnce) {
  constexpr Index kDeep = 5000;  // more than two passes of either type
  const Numbers x(DType::kBF16, {37, kDeep}), w(DType::kBF16, {45, kDeep}, 2), rounded(DType::kBF16, {37, 45}), whole(DType::kF32, {37, 45});
  const auto backend = make_cpu_backend(2);
  ops::linear_forward(*backend, x, w, rounded);
  ops::linear_forward(*backend, x, w, whole);
  for (Index i = 0; i < 37 * 45; ++i) EXPECT_EQ(rounded[i], static_cast<float>(BFloat16(whole[i]))) << i;
}

TEST(Exponential, IsGoodToAFewUnits) {
  // Seen through the gradient of the cross-entropy: with lse 0 and the label elsewhere it is e^x.
  constexpr Index kCount = 20000;
  const Numbers x(DType::kF32, {1, kCount}), y(DType::kF32, {1, kCount}), lse(DType::kF32, {1});
  for (Index i = 0; i < kCount; ++i) x.set(i, -87.0F + 175.0F * static_cast<float>(i) / static_cast<float>(kCount));
  lse.set(0, 0.0F);
  const Integers<std::int32_t> labels({0});
  ops::cross_entropy_gradient(*make_cpu_backend(1), x, labels, kCount, lse, 1.0, y);
  double worst = 0;
  for (Index i = 0; i < kCount; ++i) worst = std::max(worst, std::fabs(static_cast<double>(y[i]) / std::exp(static_cast<double>(x[i])) - 1.0));
  EXPECT_LT(worst, 2.5 * 0x1p-24);
}

}  // namespace
}  // namespace optimus
