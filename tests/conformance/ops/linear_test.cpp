// Matrix products, alone and grouped, on every backend against the reference in double.
#include "optimus/ops/linear.hpp"

#include <gtest/gtest.h>

#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;

struct Sizes {
  Index T, I, O;
};
// Nothing, one, primes, one off and on the usual tile sizes, wider than tall and the reverse.
constexpr Sizes kSizes[] = {{0, 5, 3}, {1, 1, 1}, {3, 0, 2}, {4, 3, 0}, {7, 13, 5}, {17, 33, 129}, {64, 64, 64}, {129, 31, 17}, {2, 257, 96}, {1, 128, 515}};

class Writes : public testing::TestWithParam<Write> {};
INSTANTIATE_TEST_SUITE_P(Both, Writes, testing::Values(Write::kOverwrite, Write::kAccumulate),
                         [](const auto& instance) { return instance.param == Write::kOverwrite ? "overwrite" : "accumulate"; });

/// The output of a product that overwrites starts as NaN, of one that accumulates as numbers.
void add_output(OpCase& op, const std::string& name, Kind kind, Shape shape, Write write, Index used_rows = test::kAllRows) {
  if (write == Write::kOverwrite) op.out(name, kind, shape, used_rows);
  if (write == Write::kAccumulate) op.in_out(name, kind, shape, normal(name, shape.count(), 3), used_rows);
}

TEST(Linear, ForwardAgreesWithReference) {
  for (const auto& [T, I, O] : kSizes) {
    for (const Kind out : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("x", Kind::kData, {T, I}, normal("x", T * I)).in("w", Kind::kData, {O, I}, normal("w", O * I)).out("y", out, {T, O});
      op.check([](Backend& backend, const auto& a) { ops::linear_forward(backend, a["x"], a["w"], a["y"]); });
    }
  }
}

TEST_P(Writes, LinearBackwardInputAgreesWithReference) {
  for (const auto& [T, I, O] : kSizes) {
    for (const Kind out : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("dy", Kind::kData, {T, O}, normal("dy", T * O)).in("w", Kind::kData, {O, I}, normal("w", O * I));
      add_output(op, "dx", out, {T, I}, GetParam());
      op.check([&](Backend& backend, const auto& a) { ops::linear_backward_input(backend, a["dy"], a["w"], a["dx"], GetParam()); });
    }
  }
}

TEST(Linear, BackwardWeightAccumulatesAsReference) {
  for (const auto& [T, I, O] : kSizes) {
    for (const Kind out : {Kind::kData, Kind::kWide}) {
      OpCase op;
      op.in("dy", Kind::kData, {T, O}, normal("dy", T * O)).in("x", Kind::kData, {T, I}, normal("x", T * I)).in_out("dw", out, {O, I}, normal("dw", O * I, 3));
      op.check([](Backend& backend, const auto& a) { ops::linear_backward_weight(backend, a["dy"], a["x"], a["dw"]); });
    }
  }
}

struct Groups {
  std::vector<double> segments;
  Index capacity;
};
/// One expert; some without rows at every place; none with rows; no rows at all; more experts than rows; room beyond the last row.
std::vector<Groups> groups() {
  return {{{0, 7}, 7}, {{0, 0, 5, 5, 22, 22}, 30}, {{0, 0, 0}, 4}, {{0, 0}, 0}, {{0, 1, 1, 2, 2, 2, 3}, 3}, {{0, 33, 65, 82}, 129}};
}
struct Widths {
  Index I, O;
};
constexpr Widths kWidths[] = {{1, 1}, {13, 7}, {33, 17}, {64, 128}, {31, 129}};

/// The segments and `name` [e, O, I] of one grouped product.
void add_groups(OpCase& op, const Groups& g) { op.in("segments", Kind::kI64, {static_cast<Index>(g.segments.size())}, g.segments); }

TEST(GroupedLinear, ForwardAgreesWithReferenceAndLeavesSpareRowsAlone) {
  for (const Groups& g : groups()) {
    const Index e = static_cast<Index>(g.segments.size()) - 1, R = static_cast<Index>(g.segments.back());
    for (const auto& [I, O] : kWidths) {
      OpCase op;
      add_groups(op, g);
      op.in("x", Kind::kData, {g.capacity, I}, normal("x", g.capacity * I), R)
          .in("w", Kind::kData, {e, O, I}, normal("w", e * O * I))
          .out("y", Kind::kData, {g.capacity, O}, R);
      op.check([](Backend& backend, const auto& a) { ops::grouped_linear_forward(backend, a["x"], a["w"], a["segments"], a["y"]); });
    }
  }
}

TEST_P(Writes, GroupedLinearBackwardInputAgreesWithReferenceAndLeavesSpareRowsAlone) {
  for (const Groups& g : groups()) {
    const Index e = static_cast<Index>(g.segments.size()) - 1, R = static_cast<Index>(g.segments.back());
    for (const auto& [I, O] : kWidths) {
      OpCase op;
      add_groups(op, g);
      op.in("dy", Kind::kData, {g.capacity, O}, normal("dy", g.capacity * O), R).in("w", Kind::kData, {e, O, I}, normal("w", e * O * I));
      add_output(op, "dx", Kind::kData, {g.capacity, I}, GetParam(), R);
      op.check([&](Backend& backend, const auto& a) { ops::grouped_linear_backward_input(backend, a["dy"], a["w"], a["segments"], a["dx"], GetParam()); });
    }
  }
}

TEST(GroupedLinear, BackwardWeightAccumulatesAsReference) {
  for (const Groups& g : groups()) {
    const Index e = static_cast<Index>(g.segments.size()) - 1, R = static_cast<Index>(g.segments.back());
    for (const auto& [I, O] : kWidths) {
      for (const Kind out : {Kind::kData, Kind::kWide}) {
        OpCase op;
        add_groups(op, g);
        op.in("dy", Kind::kData, {g.capacity, O}, normal("dy", g.capacity * O), R).in("x", Kind::kData, {g.capacity, I}, normal("x", g.capacity * I), R);
        op.in_out("dw", out, {e, O, I}, normal("dw", e * O * I, 3));
        op.check([](Backend& backend, const auto& a) { ops::grouped_linear_backward_weight(backend, a["dy"], a["x"], a["segments"], a["dw"]); });
      }
    }
  }
}

TEST(GroupedLinear, AnExpertWithoutRowsKeepsAnExactlyZeroGradient) {
  const Index O = 17, I = 33;
  for (const test::TestedBackend& tested : test::tested_backends()) {
    SCOPED_TRACE(tested.name);
    const test::Tensor segments(DType::kI64, {4}, {0, 5, 5, 9}), dy(DType::kBF16, {9, O}, normal("dy", 9 * O)), x(DType::kBF16, {9, I}, normal("x", 9 * I));
    const test::Tensor dw(DType::kF32, {3, O, I}, test::constant(0, 3 * O * I));
    ops::grouped_linear_backward_weight(*tested.backend, dy, x, segments, dw);
    const std::vector<double> values = dw.values();
    for (Index i = O * I; i < 2 * O * I; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], 0) << "element " << i;
    EXPECT_NE(values.front(), 0);
    EXPECT_NE(values.back(), 0);
  }
}

}  // namespace
}  // namespace optimus
