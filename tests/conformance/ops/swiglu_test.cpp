// The experts' activation on every backend against the reference in double.
#include <gtest/gtest.h>

#include "optimus/ops/moe.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;

struct Sizes {
  Index capacity, R, F;
};
constexpr Sizes kSizes[] = {{0, 0, 8}, {1, 1, 1}, {5, 0, 3}, {9, 7, 13}, {17, 17, 33}, {129, 101, 31}, {64, 64, 128}};

TEST(Swiglu, ForwardAgreesWithReferenceAndLeavesSpareRowsAlone) {
  for (const auto& [capacity, R, F] : kSizes) {
    OpCase op;
    op.in("gate", Kind::kData, {capacity, F}, normal("gate", capacity * F, 3), R).in("up", Kind::kData, {capacity, F}, normal("up", capacity * F), R);
    op.in("num_rows", Kind::kI64, {1}, {static_cast<double>(R)}).out("act", Kind::kData, {capacity, F}, R);
    op.check([](Backend& backend, const auto& a) { ops::swiglu_forward(backend, a["gate"], a["up"], a["num_rows"], a["act"]); });
  }
}

TEST(Swiglu, ForwardWithoutARowCountTakesAllRows) {
  for (const auto& [capacity, R, F] : kSizes) {
    OpCase op;
    op.in("gate", Kind::kData, {capacity, F}, normal("gate", capacity * F, 3))
        .in("up", Kind::kData, {capacity, F}, normal("up", capacity * F))
        .out("act", Kind::kData, {capacity, F});
    op.check([](Backend& backend, const auto& a) { ops::swiglu_forward(backend, a["gate"], a["up"], {}, a["act"]); });
  }
}

TEST(Swiglu, SurvivesGatesFarOutside) {
  OpCase op;
  op.in("gate", Kind::kData, {1, 8}, {-1e4, -200, -88, -20, 20, 88, 200, 1e4})
      .in("up", Kind::kData, {1, 8}, test::constant(1, 8))
      .out("act", Kind::kData, {1, 8});
  op.check([](Backend& backend, const auto& a) { ops::swiglu_forward(backend, a["gate"], a["up"], {}, a["act"]); });
}

TEST(Swiglu, BackwardAgreesWithReferenceApartAndInPlace) {
  for (const auto& [capacity, R, F] : kSizes) {
    OpCase apart, in_place;
    const std::vector<double> dact = normal("dact", capacity * F), gate = normal("gate", capacity * F, 3), up = normal("up", capacity * F);
    apart.in("dact", Kind::kData, {capacity, F}, dact).in("gate", Kind::kData, {capacity, F}, gate).in("up", Kind::kData, {capacity, F}, up);
    apart.out("dgate", Kind::kData, {capacity, F}).out("dup", Kind::kData, {capacity, F});
    in_place.in("dact", Kind::kData, {capacity, F}, dact).in_out("gate", Kind::kData, {capacity, F}, gate).in_out("up", Kind::kData, {capacity, F}, up);
    apart.check([](Backend& backend, const auto& a) { ops::swiglu_backward(backend, a["dact"], a["gate"], a["up"], a["dgate"], a["dup"]); });
    in_place.check([](Backend& backend, const auto& a) { ops::swiglu_backward(backend, a["dact"], a["gate"], a["up"], a["gate"], a["up"]); });
  }
}

/// Segments of three experts, the middle one without rows.
std::vector<double> segments(Index R) { return {0, static_cast<double>(R / 2), static_cast<double>(R / 2), static_cast<double>(R)}; }

TEST(ExpertSwiglu, BackwardAgreesWithReferenceAndLeavesSpareRowsAlone) {
  for (const auto& [capacity, R, F] : kSizes) {
    OpCase op;
    op.in("segments", Kind::kI64, {4}, segments(R))
        .in("dact", Kind::kData, {capacity, F}, normal("dact", capacity * F), R)
        .in("weight", Kind::kWide, {capacity}, normal("weight", capacity), R);
    op.in("gate", Kind::kData, {capacity, F}, normal("gate", capacity * F, 3), R).in("up", Kind::kData, {capacity, F}, normal("up", capacity * F), R);
    op.out("dgate", Kind::kData, {capacity, F}, R)
        .out("dup", Kind::kData, {capacity, F}, R)
        .out("weighted_act", Kind::kData, {capacity, F}, R)
        .out("dweight", Kind::kWide, {capacity}, R);
    op.check([](Backend& backend, const auto& a) {
      ops::expert_swiglu_backward(backend, a["dact"], a["gate"], a["up"], a["weight"], a["segments"], {a["dgate"], a["dup"], a["weighted_act"], a["dweight"]});
    });
  }
}

TEST(ExpertSwiglu, BackwardMayOverwriteItsInputs) {
  for (const auto& [capacity, R, F] : kSizes) {
    OpCase op;
    op.in("segments", Kind::kI64, {4}, segments(R))
        .in_out("dact", Kind::kData, {capacity, F}, normal("dact", capacity * F), R)
        .in("weight", Kind::kWide, {capacity}, normal("weight", capacity), R);
    op.in_out("gate", Kind::kData, {capacity, F}, normal("gate", capacity * F, 3), R).in_out("up", Kind::kData, {capacity, F}, normal("up", capacity * F), R);
    op.out("dweight", Kind::kWide, {capacity}, R);
    op.check([](Backend& backend, const auto& a) {
      ops::expert_swiglu_backward(backend, a["dact"], a["gate"], a["up"], a["weight"], a["segments"], {a["gate"], a["up"], a["dact"], a["dweight"]});
    });
  }
}

}  // namespace
}  // namespace optimus
