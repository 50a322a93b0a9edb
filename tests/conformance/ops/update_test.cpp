// Optimizer updates and norms on every backend against the reference in double.
#include "optimus/ops/update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;
using test::Tensor;

constexpr Index kCounts[] = {0, 1, 15, 17, 129, 1000, 4099};
constexpr AdamWStep kStep{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1, .step = 3, .gradient_scale = 0.5};

std::vector<double> squares(std::string_view name, Index n) {
  std::vector<double> values = normal(name, n);
  for (double& value : values) value *= value;
  return values;
}

TEST(AdamW, AgreesWithReference) {
  for (const Index n : kCounts) {
    for (const Kind gradient : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("gradient", gradient, {n}, normal("gradient", n))
          .in_out("master", Kind::kWide, {n}, normal("master", n))
          .in_out("m", Kind::kWide, {n}, normal("m", n));
      op.in_out("v", Kind::kWide, {n}, squares("v", n)).out("weight", Kind::kData, {n});
      op.check([](Backend& backend, const auto& a) { ops::adamw_update(backend, kStep, a["gradient"], a["master"], a["m"], a["v"], a["weight"]); },
               {.same_for_any_threads = true});
    }
  }
}

TEST(AdamW, TheWeightMayBeTheMasterItself) {
  for (const Index n : kCounts) {
    OpCase op;
    op.in("gradient", Kind::kWide, {n}, normal("gradient", n))
        .in_out("master", Kind::kWide, {n}, normal("master", n))
        .in_out("m", Kind::kWide, {n}, normal("m", n))
        .in_out("v", Kind::kWide, {n}, squares("v", n));
    op.check([](Backend& backend, const auto& a) { ops::adamw_update(backend, kStep, a["gradient"], a["master"], a["m"], a["v"], a["master"]); }, {},
             {DType::kF32});
  }
}

TEST(AdamW, AnyCutIntoShardsGivesTheSameBits) {
  constexpr Index n = 257;
  for (const test::TestedBackend& tested : test::tested_backends()) {
    SCOPED_TRACE(tested.name);
    std::vector<std::vector<double>> results;
    for (const Index cut : {Index{0}, Index{1}, Index{100}, Index{130}}) {
      const Tensor gradient(DType::kF32, {n}, normal("gradient", n)), master(DType::kF32, {n}, normal("master", n)), m(DType::kF32, {n}, normal("m", n)),
          v(DType::kF32, {n}, squares("v", n)), weight(DType::kBF16, {n});
      for (const auto& [begin, end] : {std::pair{Index{0}, cut}, std::pair{cut, n}}) {
        ops::adamw_update(*tested.backend, kStep, gradient.view().rows(begin, end), master.view().rows(begin, end), m.view().rows(begin, end),
                          v.view().rows(begin, end), weight.view().rows(begin, end));
      }
      results.push_back(master.values());
      results.back().insert(results.back().end(), {weight[0], weight[99], weight[256]});
    }
    for (const auto& result : results) EXPECT_EQ(result, results.front());
  }
}

TEST(Sgd, AgreesWithReference) {
  for (const Index n : kCounts) {
    for (const Kind gradient : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("gradient", gradient, {n}, normal("gradient", n)).in_out("master", Kind::kWide, {n}, normal("master", n)).out("weight", Kind::kData, {n});
      op.check([](Backend& backend, const auto& a) { ops::sgd_update(backend, 0.1, 0.01, 0.5, a["gradient"], a["master"], a["weight"]); },
               {.same_for_any_threads = true});
    }
  }
}

TEST(SumSquares, AgreesWithReferenceAndIsTheSameForAnyThreads) {
  for (const Index n : {Index{0}, Index{1}, Index{17}, Index{4099}, Index{100003}}) {
    OpCase op;
    op.in("x", Kind::kData, {n}, normal("x", n)).out("sum", Kind::kF64, {1});
    op.check([](Backend& backend, const auto& a) { a["sum"].template as<double>()[0] = ops::sum_squares(backend, a["x"]); },
             {.f32 = 1e-12, .same_for_any_threads = true});  // f64 sums
  }
}

TEST(SumSquares, DoesNotOverflowWhereASquareWouldInFloat) {
  for (const test::TestedBackend& tested : test::tested_backends()) {
    SCOPED_TRACE(tested.name);
    EXPECT_NEAR(ops::sum_squares(*tested.backend, Tensor(DType::kF32, {3}, {1e30, -1e30, 1e30})) / 3e60, 1, 1e-6);
  }
}

TEST(SumSquares, ShowsEveryNaNAndInfinity) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  constexpr Index n = 5003;
  for (const test::TestedBackend& tested : test::tested_backends()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Index place : {Index{0}, Index{2048}, n - 1}) {
        for (const double value : {kNaN, kInfinity, -kInfinity}) {
          const Tensor x(dtype, {n}, test::constant(1, n));
          x.set(place, value);
          EXPECT_FALSE(std::isfinite(ops::sum_squares(*tested.backend, x))) << tested.name << ", " << dtype_name(dtype) << ", " << value << " at " << place;
        }
      }
    }
  }
}

}  // namespace
}  // namespace optimus
