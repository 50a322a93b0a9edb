// Every gradient of whole models against central differences of the optimised loss, in double on the reference backend.
//
// One random direction for each parameter: |difference quotient - <gradient, direction>| within 1e-6 of the larger, plus 1e-9 of the loss for what rounding leaves.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "optimus/base/random.hpp"
#include "optimus/ops/loss.hpp"
#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

struct Case {
  std::string name;
  bool is_moe = true;
  std::function<void(TransformerOptions&, test::Rows&)> change = [](TransformerOptions&, test::Rows&) {};
  LossScale weights{.lm = 1.0, .aux = 0.7, .z = 0.3};  ///< large, so that a wrong aux or z gradient can not hide
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class CentralDifference : public testing::TestWithParam<Case> {
 protected:
  CentralDifference()
      : options_{.model = GetParam().is_moe ? test::small_moe() : test::small_dense(),
                 .moe = {},
                 .recompute = {},
                 .weights = DType::kF64,
                 .gradients = DType::kF64,
                 .micro_batch = 3,
                 .sequence_length = 5},
        rows_(test::random_rows(options_.model, 3, 5)) {
    GetParam().change(options_, rows_);
    scale_ = GetParam().weights;
    scale_.lm /= static_cast<double>(rows_.valid_labels());
    const Index layers = options_.model.num_hidden_layers, experts = options_.model.num_experts;
    if (options_.moe.aux_loss_scope == "global_batch") {
      for (Index i = 0; i < layers * experts; ++i) global_counts_.push_back(3 + i * i % 11);
    }
  }

  /// The optimised loss; gradients are added to those of `parameters`.
  double loss(Transformer& transformer) const {
    const auto result = transformer.forward_backward(rows_.batch(), scale_, {global_counts_, 40});
    return scale_.lm * result.lm_loss_sum + scale_.aux * result.aux_loss + scale_.z * result.z_loss;
  }

  TransformerOptions options_;
  test::Rows rows_;
  LossScale scale_;
  std::vector<std::int64_t> global_counts_;
};

TEST_P(CentralDifference, AgreesWithEveryParametersGradient) {
  const auto backend = test::make_backend("ref");
  test::Parameters parameters(options_.model, DType::kF64, DType::kF64);
  parameters.initialize(3);
  Transformer transformer(options_, *backend);
  transformer.bind(parameters.weights(), parameters.gradients());
  const double centre = loss(transformer);
  std::vector<std::vector<double>> gradients;
  for (std::size_t i = 0; i < parameters.specs().size(); ++i) gradients.push_back(parameters.gradient(i));

  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const ParamSpec& spec = parameters.specs()[i];
    const auto weights = parameters.weights()[i].span<double>();
    const std::vector<double> start(weights.begin(), weights.end());
    const RandomStream stream(5, "direction", spec.name);
    constexpr double kStep = 2e-5;
    const auto moved = [&](double by) {
      for (std::size_t j = 0; j < start.size(); ++j) weights[j] = start[j] + by * static_cast<double>(stream.normal(static_cast<Index>(j)));
      return loss(transformer);
    };
    // Four points: the error falls with the fourth power of the step.
    const double quotient = (8 * (moved(kStep) - moved(-kStep)) - (moved(2 * kStep) - moved(-2 * kStep))) / (12 * kStep);
    double product = 0;
    for (std::size_t j = 0; j < start.size(); ++j) product += gradients[i][j] * static_cast<double>(stream.normal(static_cast<Index>(j)));
    std::copy(start.begin(), start.end(), weights.begin());
    EXPECT_NEAR(quotient, product, 1e-6 * std::max(std::abs(quotient), std::abs(product)) + 1e-9 * std::abs(centre)) << spec.name;
    EXPECT_NE(product, 0.0) << spec.name << " has no gradient at all";
  }
}

std::vector<Case> cases() {
  using Options = TransformerOptions;
  using Rows = test::Rows;
  const auto grouped_and_clipped = [](Options& o, Rows&) {
    o.model.num_attention_heads = 6;
    o.model.num_key_value_heads = 2;
    o.model.clip_qkv = 0.8;
  };
  return {
      {"dense", false},
      {"dense_tied", false, [](Options& o, Rows&) { o.model.tie_word_embeddings = true; }},
      {"dense_grouped_clipped", false, grouped_and_clipped},
      {"dense_masked", false, [](Options&, Rows& r) { r.labels[0] = r.labels[7] = ops::kIgnoredLabel; }},
      {"moe"},
      {"moe_tied", true, [](Options& o, Rows&) { o.model.tie_word_embeddings = true; }},
      {"moe_normalised_weights", true, [](Options& o, Rows&) { o.model.norm_topk_prob = true; }},
      {"moe_grouped_clipped", true, grouped_and_clipped},
      {"moe_masked", true, [](Options&, Rows& r) { r.labels[3] = ops::kIgnoredLabel; }},
      {"moe_all_experts", true, [](Options& o, Rows&) { o.model.num_experts_per_tok = 5; }},
      {"moe_per_layer", true, [](Options& o, Rows&) { o.moe.aux_loss_layers = "per_layer"; }},
      {"moe_sequence", true, [](Options& o, Rows&) { o.moe.aux_loss_scope = "sequence"; }},
      {"moe_per_layer_sequence", true,
       [](Options& o, Rows&) {
         o.moe.aux_loss_layers = "per_layer";
         o.moe.aux_loss_scope = "sequence";
       }},
      {"moe_global_batch", true, [](Options& o, Rows&) { o.moe.aux_loss_scope = "global_batch"; }},
      {"moe_per_layer_global_batch", true,
       [](Options& o, Rows&) {
         o.moe.aux_loss_layers = "per_layer";
         o.moe.aux_loss_scope = "global_batch";
       }},
      {"moe_reference", true, [](Options& o, Rows&) { o.moe.implementation = "reference"; }},
      {"moe_uniform", true, [](Options& o, Rows&) { o.moe.force_uniform_routing = true; }},
  };
}

INSTANTIATE_TEST_SUITE_P(Models, CentralDifference, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace optimus
