// Recomputation changes memory, never a bit of a result.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

struct Case {
  std::string model, backend, implementation;
  DType dtype;
  [[nodiscard]] std::string name() const { return fmt::format("{}_{}_{}_{}", model, backend, implementation, dtype_name(dtype)); }
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name(); }
};

class Recompute : public testing::TestWithParam<Case> {
 protected:
  struct Run {
    std::string gradients;
    MicroBatchResult result;
    Index bytes = 0;
  };

  [[nodiscard]] static Run run(const RecomputeConfig& recompute) {
    const Case& c = GetParam();
    ModelConfig model = c.model == "dense" ? test::small_dense() : test::small_moe();
    model.clip_qkv = 0.9;
    const test::Rows rows = test::random_rows(model, 2, 11);
    TransformerOptions options{
        .model = model, .moe = {}, .recompute = recompute, .weights = c.dtype, .gradients = DType::kF32, .micro_batch = 2, .sequence_length = 11};
    options.moe.implementation = c.implementation;
    const auto backend = test::make_backend(c.backend);
    test::Parameters parameters(model, c.dtype, DType::kF32);
    parameters.initialize(11);
    Transformer transformer(options, *backend);
    transformer.bind(parameters.weights(), parameters.gradients());
    Run run;
    for (int step = 0; step < 2; ++step) run.result = transformer.forward_backward(rows.batch(), test::scale_of(rows, 0.01, 0.001), {});
    run.gradients = parameters.gradient_bytes();
    run.bytes = transformer.arena_bytes();
    return run;
  }
};

TEST_P(Recompute, GivesTheSameBitsForEverySubset) {
  const Run kept = run({});
  for (int subset = 1; subset < 8; ++subset) {
    const RecomputeConfig recompute{.norm = (subset & 1) != 0, .attention = (subset & 2) != 0, .moe = (subset & 4) != 0};
    const Run again = run(recompute);
    EXPECT_TRUE(again.gradients == kept.gradients) << "norm, attention, moe = " << subset;
    EXPECT_EQ(again.result.lm_loss_sum, kept.result.lm_loss_sum);
    EXPECT_EQ(again.result.aux_loss, kept.result.aux_loss);
    EXPECT_EQ(again.result.z_loss, kept.result.z_loss);
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* backend : {"ref", "cpu"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      all.push_back({"dense", backend, "fast", dtype});
      all.push_back({"moe", backend, "fast", dtype});
      all.push_back({"moe", backend, "reference", dtype});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name(); });

TEST(RecomputeMemory, ShrinksWithEveryBlockThatIsComputedAgain) {
  ModelConfig model = test::small_moe();
  model.num_hidden_layers = 8;
  TransformerOptions options{.model = model, .moe = {}, .recompute = {}, .micro_batch = 2, .sequence_length = 32};
  const Index all = plan_activations(options).bytes;
  for (bool RecomputeConfig::* block : {&RecomputeConfig::norm, &RecomputeConfig::attention, &RecomputeConfig::moe}) {
    options.recompute = {};
    options.recompute.*block = true;
    EXPECT_LT(plan_activations(options).bytes, all);
  }
}

}  // namespace
}  // namespace optimus
