// The layout changes nothing: losses, every gradient, the norm, and the weights after five steps are those of one rank.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "optimus/comm/self/self.hpp"
#include "tests/invariance/layouts/layouts.hpp"
#include "tests/invariance/layouts/training.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {
namespace {

constexpr Index kSteps = 5;

const std::vector<std::string> kCommon = {"precision.weights=fp32", "data.sequence_length=16", "batch.global_batch=16", "optimizer.clip_norm=1.0",
                                          "optimizer.clip_during_warmup=true"};
const std::vector<std::string> kSgd = {"optimizer.name=sgd", "optimizer.lr=1.0", "optimizer.weight_decay=0.0"};
// eps is well above the rounding of gradients: below it the direction of an AdamW step is that of rounding errors.
const std::vector<std::string> kAdamW = {"optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.eps=1e-6"};

std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// The largest |a - e|, as a part of the largest |e|.
double difference(const std::vector<float>& a, const std::vector<float>& e) {
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(e[i])));
    scale = std::max(scale, std::abs(static_cast<double>(e[i])));
  }
  return worst == 0 ? 0 : worst / scale;
}

void expect_tensors(const char* what, const std::map<std::string, std::vector<float>>& a, const std::map<std::string, std::vector<float>>& e, double bound) {
  ASSERT_EQ(a.size(), e.size());
  for (const auto& [name, expected] : e) {
    ASSERT_TRUE(a.contains(name)) << name;
    ASSERT_EQ(a.at(name).size(), expected.size()) << name;
    const double worst = difference(a.at(name), expected);
    EXPECT_TRUE(worst <= bound) << what << " of " << name << ": " << worst << " of the largest element";
  }
}

void expect_numbers(const char* what, const std::vector<double>& a, const std::vector<double>& e, double bound) {
  ASSERT_EQ(a.size(), e.size());
  for (std::size_t i = 0; i < e.size(); ++i) EXPECT_NEAR(a[i], e[i], bound * std::max(1.0, std::abs(e[i]))) << what << ", step " << i + 1;
}

void expect_equal(const Outcome& a, const Outcome& e, double weight_bound) {
  expect_numbers("lm_loss", a.lm_loss, e.lm_loss, 1e-5);
  expect_numbers("aux_loss", a.aux_loss, e.aux_loss, 1e-5);
  expect_numbers("z_loss", a.z_loss, e.z_loss, 1e-5);
  expect_numbers("grad_norm", a.grad_norm, e.grad_norm, 1e-5);
  expect_tensors("initial weights", a.initial, e.initial, 0);
  expect_tensors("gradients", a.gradients, e.gradients, 1e-5);
  expect_tensors("weights", a.weights, e.weights, weight_bound);
}

class Layouts : public testing::Test {
 protected:
  /// On one rank with the same micro-batches, computed once.
  const Outcome& expected(const ModelCase& model, const std::vector<std::string>& settings, Index micro_batch) {
    const auto key = std::tuple(model.name, settings, micro_batch);
    const auto known = references_.find(key);
    if (known != references_.end()) return known->second;
    const auto self = make_self_communicator();
    return references_[key] = train(*self, model.text, joined({settings, {"batch.micro_batch=" + std::to_string(micro_batch)}}), kSteps);
  }

  void check(const ModelCase& model, const Layout& layout, Index reference_micro_batch, const std::vector<std::string>& more) {
    if (world().rank() >= layout.ranks()) return;
    SCOPED_TRACE(model.name + ": " + layout.str());
    std::vector<Index> members;
    for (Index rank = 0; rank < layout.ranks(); ++rank) members.push_back(rank);
    const auto group = world().subgroup(members, "layout");
    const std::vector<std::string> mesh = {"parallel.tp=" + std::to_string(layout.tp), "parallel.ep=" + std::to_string(layout.ep),
                                           "parallel.pp=" + std::to_string(layout.pp), "batch.micro_batch=" + std::to_string(layout.micro_batch)};
    for (const auto* optimizer : {&kSgd, &kAdamW}) {
      const auto settings = joined({kCommon, *optimizer, more});
      const Outcome actual = train(*group, model.text, joined({settings, mesh, layout.settings}), kSteps);
      if (group->rank() == 0) expect_equal(actual, expected(model, settings, reference_micro_batch), optimizer == &kSgd ? model.sgd_bound : 1e-4);
    }
  }

  /// In reach of all ranks in step: a rank that goes ahead would wait in the next layout's first collective.
  template <class Check> void each(const std::vector<Layout>& layouts, Check run) {
    std::size_t done = 0;
    for (const Layout& layout : layouts) {
      run(layout);
      world().barrier();
      if (world().rank() == 0 && ++done % 50 == 0) std::printf("%zu of %zu layouts\n", done, layouts.size());
    }
    if (world().rank() == 0) std::printf("%zu layouts\n", layouts.size());
  }

  std::map<std::tuple<std::string, std::vector<std::string>, Index>, Outcome> references_;
};

TEST_F(Layouts, CoveringGiveTheResultOfOneRank) {
  for (const ModelCase& model : model_cases()) {
    each(covering_layouts(model), [&](const Layout& layout) { check(model, layout, layout.micro_batch, {}); });
  }
}

/// With the counts of the global batch the balancing loss does not depend on the micro-batches either.
TEST_F(Layouts, CoveringBalanceTheGlobalBatch) {
  const ModelCase model = model_cases().back();
  std::vector<Layout> some;
  const auto all = covering_layouts(model);
  for (std::size_t i = 0; i < all.size(); i += 5) some.push_back(all[i]);
  each(some, [&](const Layout& layout) { check(model, layout, 16, {"moe.aux_loss_scope=global_batch"}); });
}

TEST_F(Layouts, ExhaustiveGiveTheResultOfOneRank) {
  for (const ModelCase& model : model_cases()) {
    each(all_layouts(model), [&](const Layout& layout) { check(model, layout, layout.micro_batch, {}); });
  }
}

}  // namespace
}  // namespace optimus::test
