// The layout changes nothing: losses, every gradient, the norm, and the weights after five steps are those of one rank.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "tests/invariance/layouts/comparison.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {
namespace {

constexpr Index kSteps = 5;

const std::vector<std::string> kCommon = {"precision.weights=fp32", "data.sequence_length=16", "batch.global_batch=16", "optimizer.clip_norm=1.0",
                                          "optimizer.clip_during_warmup=true"};
const std::vector<std::string> kSgd = {"optimizer.name=sgd", "optimizer.lr=1.0", "optimizer.weight_decay=0.0"};
// eps is well above the rounding of gradients: below it the direction of an AdamW step is that of rounding errors.
const std::vector<std::string> kAdamW = {"optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.eps=1e-6"};

class Layouts : public testing::Test {
 protected:
  /// Ranks that a layout does not need wait for the others' steps and for rank 0's reference.
  void SetUp() override { mpi().set_time_limit(600); }
  void TearDown() override { mpi().set_time_limit(kTimeLimit); }

  /// On one rank with the same micro-batches, computed once.
  const Outcome& expected(const ModelCase& model, const std::vector<std::string>& settings, Index micro_batch) {
    const auto key = std::tuple(model.name, settings, micro_batch);
    const auto known = references_.find(key);
    if (known != references_.end()) return known->second;
    return references_[key] = train_alone(model.text, joined({settings, {"batch.micro_batch=" + std::to_string(micro_batch)}}), kSteps);
  }

  void check(const ModelCase& model, const Layout& layout, Index reference_micro_batch, const std::vector<std::string>& more) {
    SCOPED_TRACE(model.name + ": " + layout.str());
    for (const auto* optimizer : {&kSgd, &kAdamW}) {
      const auto settings = joined({kCommon, *optimizer, more});
      const Outcome actual = train_in(layout, model.text, settings, kSteps);
      if (world().rank() == 0) expect_equal(actual, expected(model, settings, reference_micro_batch), optimizer == &kSgd ? model.sgd_bound : 1e-4);
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
  std::size_t first = 0;
  for (const ModelCase& model : model_cases()) {
    each(covering_layouts(model, world().size(), first++), [&](const Layout& layout) { check(model, layout, layout.micro_batch, {}); });
  }
}

/// Stages of unequal length, and some without any layer.
TEST_F(Layouts, UnevenStagesGiveTheResultOfOneRank) {
  const ModelCase model = model_cases()[2];
  std::vector<Layout> some;
  for (const char* split : {"[2,0,1]", "[3,0,0]", "[0,3,0]", "[0,0,3]", "[1,1,1]"}) {
    for (const char* schedule : {"1f1b", "gpipe", "zero_bubble"})
      some.push_back({.pp = 3, .settings = {std::string("parallel.layers_per_stage=") + split, std::string("parallel.pipeline_schedule=") + schedule}});
  }
  if (world().size() < 4) return each({{.pp = 2, .settings = {"parallel.layers_per_stage=[0,3]"}}}, [&](const Layout& layout) { check(model, layout, 1, {}); });
  each(some, [&](const Layout& layout) { check(model, layout, 1, {}); });
  const Layout interleaved{
      .dp = 2, .pp = 2, .settings = {"parallel.pipeline_schedule=interleaved", "parallel.virtual_stages=2", "parallel.layers_per_stage=[3,0,4,1]"}};
  each({interleaved}, [&](const Layout& layout) { check(model_cases()[3], layout, 1, {}); });
}

/// With the counts of the global batch the balancing loss does not depend on the micro-batches either.
TEST_F(Layouts, CoveringBalanceTheGlobalBatch) {
  const ModelCase model = model_cases().front();
  std::vector<Layout> some;
  const auto all = covering_layouts(model, world().size(), 1);
  for (std::size_t i = 0; i < all.size(); i += 2) some.push_back(all[i]);
  each(some, [&](const Layout& layout) { check(model, layout, 16, {"moe.aux_loss_scope=global_batch"}); });
}

/// In bf16 the order of sums shows in the third digit: losses and norms stay that near.
TEST_F(Layouts, CoveringInBf16StayNearOneRank) {
  const ModelCase model = model_cases().front();
  const auto all = covering_layouts(model, world().size(), 2);
  std::vector<Layout> some;
  for (std::size_t i = 0; i < all.size(); i += 2) some.push_back(all[i]);
  each(some, [&](const Layout& layout) {
    SCOPED_TRACE(layout.str());
    for (const char* gradients : {"precision.gradients=fp32", "precision.gradients=bf16"}) {
      const auto settings = joined({kCommon, kAdamW, {"precision.weights=bf16", gradients}});
      const Outcome actual = train_in(layout, model.text, settings, kSteps);
      if (world().rank() > 0) continue;
      const Outcome& e = expected(model, settings, layout.micro_batch);
      expect_numbers("lm_loss", actual.lm_loss, e.lm_loss, 5e-3);
      expect_numbers("grad_norm", actual.grad_norm, e.grad_norm, 2e-2);
      expect_tensors("initial weights", actual.initial, e.initial, 0);
    }
  });
}

TEST_F(Layouts, ExhaustiveGiveTheResultOfOneRank) {
  for (const ModelCase& model : model_cases()) {
    each(all_layouts(model, world().size()), [&](const Layout& layout) { check(model, layout, layout.micro_batch, {}); });
  }
}

}  // namespace
}  // namespace optimus::test
