// Embedding, sums and conversions on every backend against the reference in double.
#include "optimus/ops/misc.hpp"

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

constexpr test::Bounds kExact{.f32 = 0, .bf16 = 0, .same_for_any_threads = true};
struct Sizes {
  Index T, V, D;
};
constexpr Sizes kSizes[] = {{0, 5, 3}, {1, 1, 1}, {7, 3, 33}, {129, 17, 31}, {600, 11, 64}};

TEST(Embedding, ForwardCopiesRows) {
  for (const auto& [T, V, D] : kSizes) {
    OpCase op;
    op.in("w", Kind::kData, {V, D}, normal("w", V * D))
        .in("ids", Kind::kI32, {T}, test::below("ids", T, static_cast<std::uint64_t>(V)))
        .out("x", Kind::kData, {T, D});
    op.check([](Backend& backend, const auto& a) { ops::embedding_forward(backend, a["w"], a["ids"], a["x"]); }, kExact);
  }
}

TEST(Embedding, BackwardAddsRowsOfRepeatedTokensInOrder) {
  for (const auto& [T, V, D] : kSizes) {
    for (const Kind out : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("dx", Kind::kData, {T, D}, normal("dx", T * D))
          .in("ids", Kind::kI32, {T}, test::below("ids", T, static_cast<std::uint64_t>(V)))
          .in_out("dw", out, {V, D}, normal("dw", V * D));
      // A bf16 gradient may be rounded after every added row: up to T / V roundings of 2^-8, in random directions.
      const test::Bounds bounds{.bf16 = 1.01 * 0x1p-8 * (1 + std::sqrt(static_cast<double>(T) / static_cast<double>(V))), .same_for_any_threads = true};
      op.check([](Backend& backend, const auto& a) { ops::embedding_backward(backend, a["dx"], a["ids"], a["dw"]); }, bounds);
    }
  }
}

TEST(Embedding, OfSomeRowsOfTheVocabularyLeavesTheOthersOut) {
  for (const auto& [T, V, D] : kSizes) {
    for (const Index begin : {Index{0}, V, 2 * V}) {  // ids over three times the rows that are here
      OpCase forward, backward;
      const std::vector<double> ids = test::below("ids", T, static_cast<std::uint64_t>(3 * V));
      forward.in("w", Kind::kData, {V, D}, normal("w", V * D)).in("ids", Kind::kI32, {T}, ids).out("x", Kind::kData, {T, D});
      forward.check([&](Backend& backend, const auto& a) { ops::embedding_forward(backend, a["w"], a["ids"], a["x"], begin); }, kExact);
      backward.in("dx", Kind::kData, {T, D}, normal("dx", T * D)).in("ids", Kind::kI32, {T}, ids).in_out("dw", Kind::kWide, {V, D}, normal("dw", V * D));
      backward.check([&](Backend& backend, const auto& a) { ops::embedding_backward(backend, a["dx"], a["ids"], a["dw"], begin); },
                     {.same_for_any_threads = true});
    }
  }
}

TEST(Add, RoundsOnceAndMayOverwriteEitherTerm) {
  for (const Index n : {0, 1, 31, 129, 5000}) {
    OpCase apart, into_first, into_second;
    const std::vector<double> a_values = normal("a", n), b_values = normal("b", n);
    apart.in("a", Kind::kData, {n}, a_values).in("b", Kind::kData, {n}, b_values).out("out", Kind::kData, {n});
    into_first.in_out("a", Kind::kData, {n}, a_values).in("b", Kind::kData, {n}, b_values);
    into_second.in("a", Kind::kData, {n}, a_values).in_out("b", Kind::kData, {n}, b_values);
    const test::Bounds bounds{.f32 = 0x1p-24, .bf16 = 0x1p-8, .same_for_any_threads = true};  // half a unit of the last place
    apart.check([](Backend& backend, const auto& a) { ops::add(backend, a["a"], a["b"], a["out"]); }, bounds);
    into_first.check([](Backend& backend, const auto& a) { ops::add(backend, a["a"], a["b"], a["a"]); }, bounds);
    into_second.check([](Backend& backend, const auto& a) { ops::add(backend, a["a"], a["b"], a["b"]); }, bounds);
  }
}

TEST(Convert, RoundsToNearestEvenAndKeepsInfinityAndNaN) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  // 1 + 2^-8 is half way between the bf16 numbers 1 and 1 + 2^-7; 1 + 3*2^-8 between 1 + 2^-7 and 1 + 2^-6.
  const std::vector<double> in = {0,    1,     1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-20, 1 + 3 * 0x1p-8, -1 - 0x1p-8, 0x1.fep127, 3.4e38, kInfinity, -kInfinity,
                                  kNaN, 1e-39, 0x1p-133};
  const std::vector<double> want = {0, 1, 1, 1 + 0x1p-7, 1 + 0x1p-6, -1, 0x1.fep127, kInfinity, kInfinity, -kInfinity, kNaN};
  for (const test::TestedBackend& tested : test::tested_backends()) {
    SCOPED_TRACE(tested.name);
    const Index n = static_cast<Index>(in.size());
    const Tensor wide(DType::kF32, {n}, in), narrow(DType::kBF16, {n}), back(DType::kF32, {n});
    ops::convert(*tested.backend, wide, narrow);
    ops::convert(*tested.backend, narrow, back);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double got = narrow[static_cast<Index>(i)];
      EXPECT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i]))) << in[i] << " became " << got;
      EXPECT_TRUE(back[static_cast<Index>(i)] == got || std::isnan(got)) << in[i];
    }
    EXPECT_EQ(narrow[12], 0x1p-133) << "a denormal number";
  }
}

TEST(Convert, AgreesWithReferenceAtEverySize) {
  for (const Index n : {0, 1, 15, 33, 129, 5000}) {
    OpCase down, up;
    down.in("in", Kind::kWide, {n}, normal("in", n)).out("out", Kind::kData, {n});
    up.in("in", Kind::kData, {n}, normal("in", n)).out("out", Kind::kWide, {n});
    const auto call = [](Backend& backend, const OpCase::Arguments& a) { ops::convert(backend, a["in"], a["out"]); };
    down.check(call, {.f32 = 0, .bf16 = 0x1p-8, .same_for_any_threads = true});
    up.check(call, kExact);
  }
}

TEST(CopyAndFillZero, TakeAnyElementTypeAndSize) {
  for (const Index n : {0, 1, 31, 129, 4099}) {
    for (const Kind kind : {Kind::kData, Kind::kWide, Kind::kI32, Kind::kI64}) {
      OpCase op;
      op.in("in", kind, {n}, test::below("in", n, 250)).out("out", kind, {n}).out("zero", kind, {n});
      const auto call = [](Backend& backend, const OpCase::Arguments& a) {
        ops::copy(backend, a["in"], a["out"]);
        ops::fill_zero(backend, a["zero"]);
      };
      op.check(call, kExact);
    }
  }
}

}  // namespace
}  // namespace optimus
