// Numbers worked by hand, on every backend. Chosen so that the results are exact or need a few digits.
#include <gtest/gtest.h>

#include <cmath>

#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/moe.hpp"
#include "optimus/ops/norm.hpp"
#include "optimus/ops/update.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::expect_close;
using test::Tensor;

constexpr double kBound = 1e-6;  // f32, a few operations
const double kLn3 = std::log(3.0);

Tensor f32(Shape shape, const std::vector<double>& values) { return {DType::kF32, shape, values}; }
Tensor f32(Shape shape) { return {DType::kF32, shape}; }
Tensor i32(const std::vector<double>& values) { return {DType::kI32, {static_cast<Index>(values.size())}, values}; }

/// The body runs once for each backend.
class OnEveryBackend : public testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] static Backend& backend() { return *test::tested_backends()[GetParam()].backend; }
};
INSTANTIATE_TEST_SUITE_P(Backends, OnEveryBackend, testing::Range(std::size_t{0}, test::tested_backends().size()),
                         [](const auto& instance) { return "backend_" + std::to_string(instance.param); });

TEST_P(OnEveryBackend, WeightsAreStoredOutputByInput) {
  const Tensor y = f32({1, 3});
  ops::linear_forward(backend(), f32({1, 2}, {1, 10}), f32({3, 2}, {1, 2, /**/ 3, 4, /**/ 5, 6}), y);
  EXPECT_EQ(y.values(), (std::vector<double>{21, 43, 65}));
}

TEST_P(OnEveryBackend, RmsNormOfOneAndSevenDividesByFive) {
  const Tensor y = f32({1, 2}), rstd = f32({1});
  ops::rms_norm_forward(backend(), f32({1, 2}, {1, 7}), f32({2}, {10, 20}), 0, y, rstd);
  expect_close("y", y.values(), {2, 28}, kBound);
  expect_close("rstd", rstd.values(), {0.2}, kBound);
}

TEST_P(OnEveryBackend, EpsilonIsInsideTheRoot) {
  const Tensor y = f32({1, 2}), rstd = f32({1}), mean = f32({1});
  ops::rms_norm_forward(backend(), f32({1, 2}, {0, 0}), f32({2}, {1, 1}), 0.25, y, rstd);
  expect_close("rstd of rms_norm", rstd.values(), {2}, kBound);
  ops::layer_norm_forward(backend(), f32({1, 2}, {1, 3}), 3, y, mean, rstd);
  expect_close("y", y.values(), {-0.5, 0.5}, kBound);
  expect_close("mean", mean.values(), {2}, kBound);
  expect_close("rstd of layer_norm", rstd.values(), {0.5}, kBound);
}

TEST_P(OnEveryBackend, SecondPositionMixesBothValuesUnlessADocumentStartsThere) {
  const AttentionShape shape{.batch = 1, .queries = 2, .keys = 2, .heads = 1, .kv_heads = 1, .head_size = 1};
  const Tensor q = f32({2, 1}, {1, 1}), k = f32({2, 1}, {0, kLn3}), v = f32({2, 1}, {4, 8}), o = f32({2, 1}), lse = f32({1, 1, 2});
  ops::attention_forward(backend(), shape, q, k, v, {}, o, lse);  // p of the second: 1/4, 3/4
  expect_close("o", o.values(), {4, 7}, kBound);
  expect_close("lse", lse.values(), {0, std::log(4.0)}, kBound);
  const Tensor starts(DType::kI32, {1, 2}, {0, 1});
  ops::attention_forward(backend(), shape, q, k, v, starts, o, lse);
  expect_close("o", o.values(), {4, 8}, kBound);
  expect_close("lse", lse.values(), {0, kLn3}, kBound);
}

TEST_P(OnEveryBackend, ScoresAreDividedByTheRootOfTheHeadSize) {
  const AttentionShape shape{.batch = 1, .queries = 1, .keys = 1, .heads = 1, .kv_heads = 1, .head_size = 4};
  const Tensor ones = f32({1, 4}, {1, 1, 1, 1}), o = f32({1, 4}), lse = f32({1, 1, 1});
  ops::attention_forward(backend(), shape, ones, ones, ones, {}, o, lse);
  expect_close("lse", lse.values(), {2}, kBound);
}

TEST_P(OnEveryBackend, RopeTurnsThePairOfTheTwoHalvesOfAHead) {
  // Two heads of size 4; at position 1 the first pair turns by a quarter, the second stays.
  const Tensor x = f32({1, 8}, {1, 2, 3, 4, /**/ 5, 6, 7, 8}), cos = f32({2, 2}, {1, 1, /**/ 0, 1}), sin = f32({2, 2}, {0, 0, /**/ 1, 0});
  ops::rope(backend(), x, i32({1}), cos, sin, 4, false);
  EXPECT_EQ(x.values(), (std::vector<double>{-3, 2, 1, 4, /**/ -7, 6, 5, 8}));
  ops::rope(backend(), x, i32({1}), cos, sin, 4, true);
  EXPECT_EQ(x.values(), (std::vector<double>{1, 2, 3, 4, /**/ 5, 6, 7, 8}));
}

TEST_P(OnEveryBackend, WeightsAreTheChosenProbabilitiesOrTheirShares) {
  const Tensor logits = f32({1, 3}, {std::log(2.0), std::log(5.0), std::log(3.0)}), p = f32({1, 3}), lse = f32({1}), index(DType::kI32, {1, 2}),
               weight = f32({1, 2});
  ops::router_softmax(backend(), logits, p, lse);
  expect_close("p", p.values(), {0.2, 0.5, 0.3}, kBound);
  expect_close("lse", lse.values(), {std::log(10.0)}, kBound);
  ops::router_top_k(backend(), p, index);
  EXPECT_EQ(index.values(), (std::vector<double>{1, 2}));
  ops::router_weights(backend(), p, index, false, weight);
  expect_close("weight", weight.values(), {0.5, 0.3}, kBound);
  ops::router_weights(backend(), p, index, true, weight);
  expect_close("normalised weight", weight.values(), {0.625, 0.375}, kBound);
}

TEST_P(OnEveryBackend, UniformRoutingWalksThroughTheExperts) {
  const Tensor index(DType::kI32, {3, 2});
  ops::router_uniform(backend(), 5, 4, index);  // rows 5, 6, 7 of all rows, 4 experts
  EXPECT_EQ(index.values(), (std::vector<double>{1, 2, /**/ 2, 3, /**/ 3, 0}));
}

TEST_P(OnEveryBackend, SwigluIsSiluOfTheGateTimesUp) {
  const Tensor act = f32({1, 3});
  ops::swiglu_forward(backend(), f32({1, 3}, {0, kLn3, -kLn3}), f32({1, 3}, {7, 2, 2}), {}, act);  // sigmoid: 1/2, 3/4, 1/4
  expect_close("act", act.values(), {0, 1.5 * kLn3, -0.5 * kLn3}, kBound);
}

TEST_P(OnEveryBackend, CrossEntropyIgnoresTheLabelMinusHundred) {
  const Tensor logits = f32({3, 2}, {0, kLn3, /**/ 0, kLn3, /**/ 0, kLn3}), max = f32({3}), sum = f32({3}), target = f32({3}), loss = f32({3}), lse = f32({3}),
               dlogits = f32({3, 2});
  const Tensor labels = i32({1, 0, -100});
  ops::cross_entropy_statistics(backend(), logits, labels, 0, {max, sum, target});
  ops::cross_entropy_loss(backend(), {max, sum, target}, labels, loss, lse);
  expect_close("loss", loss.values(), {std::log(4.0 / 3.0), std::log(4.0), 0}, kBound);
  EXPECT_EQ(loss[2], 0);
  ops::cross_entropy_gradient(backend(), logits, labels, 0, lse, 2, dlogits);
  expect_close("dlogits", dlogits.values(), {0.5, -0.5, /**/ -1.5, 1.5, /**/ 0, 0}, kBound);
  EXPECT_EQ(dlogits[4], 0);
  EXPECT_EQ(dlogits[5], 0);
}

TEST_P(OnEveryBackend, ABlockOfTheVocabularyOnlyKnowsTheTargetsInIt) {
  // Columns 2 and 3 of a vocabulary of 4.
  const Tensor logits = f32({3, 2}, {5, 6, /**/ 5, 6, /**/ 5, 6}), max = f32({3}), sum = f32({3}), target = f32({3});
  ops::cross_entropy_statistics(backend(), logits, i32({3, 1, 2}), 2, {max, sum, target});
  EXPECT_EQ(target.values(), (std::vector<double>{6, 0, 5}));
  EXPECT_EQ(max.values(), (std::vector<double>{6, 6, 6}));
  expect_close("sum", sum.values(), std::vector<double>(3, 1 + std::exp(-1.0)), kBound);
}

TEST_P(OnEveryBackend, BlocksOfTheVocabularyTogetherHaveTheStatisticsOfTheWholeRow) {
  // Logits 0, ln 3 in one block and ln 2, ln 2 in the other; the label is in the second.
  const Tensor parts = f32({2, 3, 1}, {kLn3, 4.0 / 3.0, 0, /**/ std::log(2.0), 2, std::log(2.0)}), max = f32({1}), sum = f32({1}), target = f32({1});
  ops::combine_softmax_statistics(backend(), parts, {max, sum, target});
  expect_close("max", max.values(), {kLn3}, kBound);
  expect_close("sum", sum.values(), {8.0 / 3.0}, kBound);
  expect_close("target", target.values(), {std::log(2.0)}, kBound);
}

TEST_P(OnEveryBackend, PartsOfARowShareOneRootMeanSquare) {
  // The row is 1, 7; only the 7 is here, and the sum of squares of both has been added up.
  const Tensor sums = f32({1}), y = f32({1, 1});
  ops::row_sum_squares(backend(), f32({1, 1}, {7}), sums);
  EXPECT_EQ(sums[0], 49);
  ops::rms_norm_rstd(backend(), f32({1}, {50}), 2, 0, sums);
  ops::rms_norm_apply(backend(), f32({1, 1}, {7}), f32({1}, {20}), sums, y);
  expect_close("y", y.values(), {28}, kBound);
}

TEST_P(OnEveryBackend, AdamWStepsByHand) {
  // A constant gradient has m / (1 - b1^step) = g and sqrt(v / (1 - b2^step)) = |g|: every step is lr once eps is next to nothing.
  const Tensor gradient = f32({2}, {1, -4}), master = f32({2}, {1, 1}), m = f32({2}, {0, 0}), v = f32({2}, {0, 0}), weight(DType::kBF16, {2});
  AdamWStep step{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-12, .weight_decay = 0.1, .step = 1, .gradient_scale = 0.5};
  ops::adamw_update(backend(), step, gradient, master, m, v, weight);
  expect_close("m", m.values(), {0.05, -0.2}, kBound);
  expect_close("v", v.values(), {0.0025, 0.04}, kBound);
  expect_close("master after one step", master.values(), {0.99 - 0.1, 0.99 + 0.1}, kBound);
  expect_close("weight", weight.values(), {0.89, 1.09}, 0x1p-8);
  step.step = 2;
  ops::adamw_update(backend(), step, gradient, master, m, v, weight);
  expect_close("master after two steps", master.values(), {0.89 * 0.99 - 0.1, 1.09 * 0.99 + 0.1}, kBound);
}

TEST_P(OnEveryBackend, AdamWAddsEpsilonOutsideTheRoot) {
  const Tensor master = f32({1}, {0}), m = f32({1}, {0}), v = f32({1}, {0});
  ops::adamw_update(backend(), {.lr = 1, .eps = 0.5, .step = 1}, f32({1}, {0.5}), master, m, v, master);
  expect_close("master", master.values(), {-0.5}, kBound);
}

TEST_P(OnEveryBackend, SgdDecaysAndSteps) {
  const Tensor master = f32({1}, {2});
  ops::sgd_update(backend(), 0.1, 0.5, 2, f32({1}, {3}), master, master);
  expect_close("master", master.values(), {2 * 0.95 - 0.6}, kBound);
}

TEST_P(OnEveryBackend, EmbeddingGradientOfARepeatedTokenAddsUp) {
  const Tensor dw = f32({3, 2}, {1, 1, /**/ 1, 1, /**/ 1, 1});
  ops::embedding_backward(backend(), f32({3, 2}, {1, 2, /**/ 10, 20, /**/ 100, 200}), i32({2, 0, 2}), dw);
  EXPECT_EQ(dw.values(), (std::vector<double>{11, 21, /**/ 1, 1, /**/ 102, 203}));
}

}  // namespace
}  // namespace optimus
