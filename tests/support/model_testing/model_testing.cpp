#include "tests/support/model_testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/backend/ref/ref_backend.hpp"
#include "optimus/base/random.hpp"
#include "optimus/ops/loss.hpp"

namespace optimus::test {

Rows Rows::slice(Index begin, Index end) const {
  const auto cut = [&](const std::vector<std::int32_t>& all) {
    return std::vector<std::int32_t>(all.begin() + begin * sequence_length, all.begin() + end * sequence_length);
  };
  return {.sequences = end - begin, .sequence_length = sequence_length, .inputs = cut(inputs), .labels = cut(labels)};
}

Index Rows::valid_labels() const {
  return std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label != ops::kIgnoredLabel; });
}

Rows random_rows(const ModelConfig& config, Index sequences, Index sequence_length, std::uint64_t seed) {
  const RandomStream stream(seed, "test rows");
  Rows rows{.sequences = sequences, .sequence_length = sequence_length, .inputs = {}, .labels = {}};
  for (Index b = 0; b < sequences; ++b) {
    for (Index s = 0; s < sequence_length; ++s) {
      const auto id = [&](Index position) {
        return static_cast<std::int32_t>(stream.below(b * (sequence_length + 1) + position, static_cast<std::uint64_t>(config.vocab_size)));
      };
      rows.inputs.push_back(id(s));
      rows.labels.push_back(id(s + 1));
    }
  }
  return rows;
}

std::vector<double> to_double(ConstView view) {
  std::vector<double> values(static_cast<std::size_t>(view.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (view.dtype()) {
      case DType::kF64: values[i] = view.as<double>()[i]; break;
      case DType::kF32: values[i] = static_cast<double>(view.as<float>()[i]); break;
      case DType::kBF16: values[i] = static_cast<double>(static_cast<float>(view.as<BFloat16>()[i])); break;
      default: throw UnsupportedError("only computed types are compared");
    }
  }
  return values;
}

void expect_near(std::string_view what, const std::vector<double>& got, const std::vector<double>& want, double bound, double scale) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = scale, worst = 0;
  std::size_t at = 0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::isnan(got[i]) ? INFINITY : std::abs(got[i] - want[i]);
    if (error > worst) {
      worst = error;
      at = i;
    }
  }
  EXPECT_LE(worst, bound * largest) << fmt::format("{}: element {} is {}, should be {}; the scale is {}, allowed {} of it", what, at, got.empty() ? 0 : got[at],
                                                   want.empty() ? 0 : want[at], largest, bound);
}

std::unique_ptr<Backend> make_backend(std::string_view name) {
  if (name == "ref") return make_ref_backend();
  return make_cpu_backend(name == "cpu_one_thread" ? 1 : 2);
}

ModelConfig small_moe() {
  ModelConfig config;
  config.vocab_size = 37;
  config.hidden_size = 12;
  config.num_hidden_layers = 2;
  config.num_attention_heads = config.num_key_value_heads = 3;
  config.intermediate_size = 10;
  config.num_experts = 5;
  config.num_experts_per_tok = 2;
  config.max_position_embeddings = 64;
  config.initializer_range = 0.3;
  return config;
}

ModelConfig small_dense() {
  ModelConfig config = small_moe();
  config.is_moe = false;
  return config;
}

LossScale scale_of(const Rows& rows, double aux_coefficient, double z_coefficient) {
  return {.lm = 1.0 / static_cast<double>(rows.valid_labels()), .aux = aux_coefficient, .z = z_coefficient};
}

}  // namespace optimus::test
