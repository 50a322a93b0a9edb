// The balancing loss by hand: two layers, two sequences of two rows, three experts, K = 1.

#include "optimus/model/moe/balance.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace optimus {
namespace {

struct Numbers {
  // counts[l][g][e] and sums of p[l][g][e] over the rows of a sequence.
  std::vector<std::int64_t> counts{2, 0, 0, 1, 1, 0, 0, 0, 2, 1, 0, 1};
  std::vector<double> sums{1.0, 0.6, 0.4, 0.8, 0.8, 0.4, 0.2, 0.4, 1.4, 1.0, 0.2, 0.8};

  [[nodiscard]] ConstView counts_LGE() const { return {reinterpret_cast<const std::byte*>(counts.data()), DType::kI64, {2, 2, 3}}; }
  [[nodiscard]] ConstView sums_LGE() const { return {reinterpret_cast<const std::byte*>(sums.data()), DType::kF64, {2, 2, 3}}; }
};

/// The same rows as one group.
struct OneGroup {
  std::vector<std::int64_t> counts{3, 1, 0, 1, 0, 3};
  std::vector<double> sums{1.8, 1.4, 0.8, 1.2, 0.6, 2.2};

  [[nodiscard]] ConstView counts_LGE() const { return {reinterpret_cast<const std::byte*>(counts.data()), DType::kI64, {2, 1, 3}}; }
  [[nodiscard]] ConstView sums_LGE() const { return {reinterpret_cast<const std::byte*>(sums.data()), DType::kF64, {2, 1, 3}}; }
};

/// The layers given are all of the model.
class WholeModel {
 public:
  WholeModel(const BalanceOptions& options, ConstView counts_LGE, ConstView sums_LGE, Index rows_per_group, const GlobalExpertCounts& global)
      : total_(static_cast<std::size_t>(counts_LGE.size(1) * counts_LGE.size(2))) {
    const auto counts = counts_LGE.span<std::int64_t>();
    for (std::size_t i = 0; i < counts.size(); ++i) total_[i % total_.size()] += counts[i];
    balance_.emplace(options,
                     BalanceStatistics{.counts_LGE = counts_LGE,
                                       .sums_LGE = sums_LGE,
                                       .total_GE = {reinterpret_cast<const std::byte*>(total_.data()), DType::kI64, {counts_LGE.size(1), counts_LGE.size(2)}},
                                       .all_layers = counts_LGE.size(0),
                                       .rows_per_group = rows_per_group},
                     global);
  }
  [[nodiscard]] double loss() const { return balance_->loss(); }
  void gradient(Index layer, double scale, View dp_GE) const { balance_->gradient(layer, scale, dp_GE); }

 private:
  std::vector<std::int64_t> total_;
  std::optional<Balance> balance_;
};

std::vector<double> gradient(const WholeModel& balance, Index layer, Index groups, double scale) {
  std::vector<double> dp(static_cast<std::size_t>(groups * 3));
  balance.gradient(layer, scale, View(reinterpret_cast<std::byte*>(dp.data()), DType::kF64, {groups, 3}));
  return dp;
}

void expect_all_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << i;
}

TEST(Balance, OfAllLayersTogetherIsHuggingFacesLoss) {
  const OneGroup n;
  const WholeModel balance({.is_concatenated = true}, n.counts_LGE(), n.sums_LGE(), 4, {});
  // f = (4, 1, 3) / 8;  P = (3.0, 2.0, 3.0) / 8
  EXPECT_NEAR(balance.loss(), 3 * (0.5 * 0.375 + 0.125 * 0.25 + 0.375 * 0.375), 1e-14);
  expect_all_near(gradient(balance, 1, 1, 0.1), {0.1 * 3 * 0.5 / 8, 0.1 * 3 * 0.125 / 8, 0.1 * 3 * 0.375 / 8});
}

TEST(Balance, PerLayerIsTheMeanOverLayers) {
  const OneGroup n;
  const WholeModel balance({.is_concatenated = false}, n.counts_LGE(), n.sums_LGE(), 4, {});
  const double first = 3 * (0.75 * 0.45 + 0.25 * 0.35), second = 3 * (0.25 * 0.3 + 0.75 * 0.55);
  EXPECT_NEAR(balance.loss(), (first + second) / 2, 1e-14);
  expect_all_near(gradient(balance, 0, 1, 1.0), {3 * 0.75 / 4 / 2, 3 * 0.25 / 4 / 2, 0.0});
}

TEST(Balance, OfSequencesIsTheirMean) {
  const Numbers n;
  const WholeModel balance({.is_concatenated = true, .is_by_sequence = true}, n.counts_LGE(), n.sums_LGE(), 2, {});
  const double first = 3 * (0.5 * 0.3 + 0.0 * 0.25 + 0.5 * 0.45), second = 3 * (0.5 * 0.45 + 0.25 * 0.25 + 0.25 * 0.3);
  EXPECT_NEAR(balance.loss(), (first + second) / 2, 1e-14);
  expect_all_near(gradient(balance, 0, 2, 1.0), {3 * 0.5 / 4 / 2, 0.0, 3 * 0.5 / 4 / 2, 3 * 0.5 / 4 / 2, 3 * 0.25 / 4 / 2, 3 * 0.25 / 4 / 2});
}

TEST(Balance, OfTheGlobalBatchTakesItsCountsAndTheseRowsProbabilities) {
  const OneGroup n;
  const std::vector<std::int64_t> global{10, 6, 0, 2, 4, 10};
  const WholeModel together({.is_concatenated = true, .is_global = true}, n.counts_LGE(), n.sums_LGE(), 4, {global, 16});
  EXPECT_NEAR(together.loss(), 3 * (12.0 / 32 * 0.375 + 10.0 / 32 * 0.25 + 10.0 / 32 * 0.375), 1e-14);
  const WholeModel apart({.is_concatenated = false, .is_global = true}, n.counts_LGE(), n.sums_LGE(), 4, {global, 16});
  expect_all_near(gradient(apart, 1, 1, 2.0), {2 * 3 * 2.0 / 16 / 8, 2 * 3 * 4.0 / 16 / 8, 2 * 3 * 10.0 / 16 / 8});
}

TEST(Balance, IsKWhenEveryExpertGetsTheSame) {
  const std::vector<std::int64_t> counts{4, 4, 4};  // six rows, K = 2
  const std::vector<double> sums{2.0, 2.0, 2.0};
  const WholeModel balance({}, {reinterpret_cast<const std::byte*>(counts.data()), DType::kI64, {1, 1, 3}},
                           {reinterpret_cast<const std::byte*>(sums.data()), DType::kF64, {1, 1, 3}}, 6, {});
  EXPECT_NEAR(balance.loss(), 2.0, 1e-14);
}

TEST(Balance, RefusesUnknownNamesAndMissingGlobalCounts) {
  EXPECT_THROW((void)balance_options({.aux_loss_layers = "some"}), ConfigError);
  EXPECT_THROW((void)balance_options({.aux_loss_scope = "planet"}), ConfigError);
  const OneGroup n;
  EXPECT_THROW(WholeModel({.is_global = true}, n.counts_LGE(), n.sums_LGE(), 4, {}), InternalError);
}

}  // namespace
}  // namespace optimus
