// Cross-entropy on every backend against the reference in double.
#include "optimus/ops/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;

struct Sizes {
  Index T, V, vocab_begin;
};
constexpr Sizes kSizes[] = {{0, 5, 0}, {1, 1, 0}, {7, 13, 0}, {17, 129, 0}, {33, 257, 100}, {3, 2048, 0}, {64, 64, 64}};

/// Labels over three times the block's columns from half a block before it; every fifth is ignored.
std::vector<double> labels(const Sizes& s) {
  std::vector<double> values = test::below("labels", s.T, static_cast<std::uint64_t>(s.vocab_begin == 0 ? s.V : 3 * s.V));
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (t % 5 == 4) values[t] = ops::kIgnoredLabel;
  }
  return values;
}

TEST(CrossEntropy, StatisticsOfABlockOfColumnsAgreeWithReference) {
  for (const Sizes& s : kSizes) {
    OpCase op;
    op.in("logits", Kind::kData, {s.T, s.V}, normal("logits", s.T * s.V, 5)).in("labels", Kind::kI32, {s.T}, labels(s));
    op.out("max", Kind::kWide, {s.T}).out("sum", Kind::kWide, {s.T}).out("target", Kind::kWide, {s.T});
    op.check([&](Backend& backend, const auto& a) {
      ops::cross_entropy_statistics(backend, a["logits"], a["labels"], s.vocab_begin, {a["max"], a["sum"], a["target"]});
    });
  }
}

TEST(CrossEntropy, StatisticsOfBlocksCombineAsTheReferenceDoes) {
  for (const Index members : {1, 2, 5}) {
    for (const Index T : {0, 1, 17, 129}) {
      std::vector<double> parts = normal("parts", members * 3 * T, 5);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (static_cast<Index>(i) / std::max<Index>(T, 1) % 3 == 1) parts[i] = 1 + std::abs(parts[i]);  // sums
      }
      OpCase op;
      op.in("parts", Kind::kWide, {members, 3, T}, parts).out("max", Kind::kWide, {T}).out("sum", Kind::kWide, {T}).out("target", Kind::kWide, {T});
      op.check([](Backend& backend, const auto& a) { ops::combine_softmax_statistics(backend, a["parts"], {a["max"], a["sum"], a["target"]}); }, {},
               {DType::kF32});
    }
  }
}

TEST(CrossEntropy, LossAndLogSumExpAgreeWithReference) {
  for (const Index T : {0, 1, 17, 129}) {
    std::vector<double> sum = normal("sum", T);
    for (double& value : sum) value = 1 + std::exp(value);
    OpCase op;
    op.in("max", Kind::kWide, {T}, normal("max", T, 5))
        .in("sum", Kind::kWide, {T}, sum)
        .in("target", Kind::kWide, {T}, normal("target", T))
        .in("labels", Kind::kI32, {T}, labels({T, 9, 0}));
    op.out("loss", Kind::kWide, {T}).out("lse", Kind::kWide, {T});
    op.check([](Backend& backend, const auto& a) { ops::cross_entropy_loss(backend, {a["max"], a["sum"], a["target"]}, a["labels"], a["loss"], a["lse"]); }, {},
             {DType::kF32});
  }
}

/// log sum exp of every row of normal("logits", T*V, 5).
std::vector<double> log_sum_exp(const Sizes& s) {
  const std::vector<double> logits = normal("logits", s.T * s.V, 5);
  std::vector<double> lse;
  for (Index t = 0; t < s.T; ++t) {
    double sum = 0;
    for (Index v = 0; v < s.V; ++v) sum += std::exp(logits[static_cast<std::size_t>(t * s.V + v)]);
    lse.push_back(std::log(sum));
  }
  return lse;
}

TEST(CrossEntropy, GradientAgreesWithReferenceInEveryOutputTypeAndInPlace) {
  for (const Sizes& s : kSizes) {
    OpCase apart, wide, in_place;
    for (OpCase* op : {&apart, &wide, &in_place}) op->in("labels", Kind::kI32, {s.T}, labels(s)).in("lse", Kind::kWide, {s.T}, log_sum_exp(s));
    apart.in("logits", Kind::kData, {s.T, s.V}, normal("logits", s.T * s.V, 5)).out("dlogits", Kind::kData, {s.T, s.V});
    wide.in("logits", Kind::kData, {s.T, s.V}, normal("logits", s.T * s.V, 5)).out("dlogits", Kind::kWide, {s.T, s.V});
    in_place.in_out("dlogits", Kind::kData, {s.T, s.V}, normal("logits", s.T * s.V, 5));
    const test::Bounds bounds{.f32 = 1e-5, .scale = 0.25};  // p - 1 with p = exp(logits - lse): a difference of numbers near 20 is known to 1e-6
    const auto call = [&](std::string_view logits) {
      return [&s, logits](Backend& backend, const OpCase::Arguments& a) {
        ops::cross_entropy_gradient(backend, a[logits], a["labels"], s.vocab_begin, a["lse"], 0.25, a["dlogits"]);
      };
    };
    apart.check(call("logits"), bounds);
    wide.check(call("logits"), bounds);
    in_place.check(call("dlogits"), bounds);
  }
}

TEST(Argmax, FindsTheLowestOfTheLargest) {
  for (const Sizes& s : kSizes) {
    for (const bool has_ties : {false, true}) {
      OpCase op;
      op.in("logits", Kind::kData, {s.T, s.V}, has_ties ? test::below("levels", s.T * s.V, 3) : normal("logits", s.T * s.V)).out("index", Kind::kI32, {s.T});
      op.check([](Backend& backend, const auto& a) { ops::argmax(backend, a["logits"], a["index"]); });
    }
  }
}

}  // namespace
}  // namespace optimus
