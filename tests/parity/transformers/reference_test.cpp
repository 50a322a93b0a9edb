// Logits, hidden states, router logits, losses and every gradient of the reference models, against what Hugging Face's transformers computed.
//
// Bound: 1e-5 of each tensor's largest element. The same model in float64 differs from the fixtures by 7e-7 (logits) and 1.5e-6 (gradients).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "optimus/checkpoint/safetensors.hpp"
#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

constexpr double kBound = 1e-5;
constexpr double kAuxCoefficient = 0.01;

struct Case {
  std::string folder, backend, implementation, labels;
  [[nodiscard]] std::string name() const {
    std::string name = fmt::format("{}_{}_{}_{}", folder, backend, implementation, labels);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
  }
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name(); }
};

class Reference : public testing::TestWithParam<Case> {
 protected:
  Reference()
      : folder_(std::filesystem::path(OPTIMUS_SOURCE_DIR) / "tests/data/reference" / GetParam().folder),
        io_(folder_ / "io.safetensors"),
        config_(read_hf_config(folder_ / "config.json")),
        parameters_(config_, DType::kF32, DType::kF32),
        backend_(test::make_backend(GetParam().backend)) {
    parameters_.load(folder_ / "model.safetensors");
    read_rows();
  }

  [[nodiscard]] std::vector<double> floats(const std::string& name) const {
    const SafetensorsEntry* entry = io_.find(name);
    if (entry == nullptr) throw CheckpointError("no tensor " + name);
    std::vector<float> values(static_cast<std::size_t>(entry->shape.count()));
    io_.read(*entry, View(reinterpret_cast<std::byte*>(values.data()), DType::kF32, entry->shape));
    return {values.begin(), values.end()};
  }
  [[nodiscard]] std::vector<std::int32_t> ints(const std::string& name) const {
    const SafetensorsEntry* entry = io_.find(name);
    std::vector<std::int32_t> values(static_cast<std::size_t>(entry->shape.count()));
    io_.read(*entry, View(reinterpret_cast<std::byte*>(values.data()), DType::kI32, entry->shape));
    return values;
  }
  /// Name of a result that depends on the labels.
  [[nodiscard]] std::string labelled(const std::string& name) const { return (GetParam().labels == "masked" ? "masked." : "") + name; }

  void read_rows() {
    const Shape shape = io_.find("tokens")->shape;
    rows_.sequences = shape[0];
    rows_.sequence_length = shape[1] - 1;
    const std::vector<std::int32_t> tokens = ints("tokens");
    for (Index b = 0; b < rows_.sequences; ++b) {
      const auto row = tokens.begin() + b * shape[1];
      rows_.inputs.insert(rows_.inputs.end(), row, row + rows_.sequence_length);
      rows_.labels.insert(rows_.labels.end(), row + 1, row + shape[1]);
    }
    if (GetParam().labels == "masked") rows_.labels = ints("labels_masked");
  }

  [[nodiscard]] Transformer make_transformer() {
    TransformerOptions options{.model = config_, .moe = {}, .recompute = {}, .micro_batch = rows_.sequences, .sequence_length = rows_.sequence_length};
    options.moe.implementation = GetParam().implementation;
    Transformer transformer(options, *backend_);
    transformer.bind(parameters_.weights(), parameters_.gradients());
    return transformer;
  }

  /// The gradient of a stacked parameter, put together from its experts'.
  [[nodiscard]] std::vector<double> wanted_gradient(const ParamSpec& spec) const {
    std::vector<double> all;
    for (Index entry = 0; entry < (spec.is_stacked() ? spec.shape[0] : 1); ++entry) {
      const std::vector<double> one = floats(labelled("grad." + spec.tensor_name(entry)));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  std::filesystem::path folder_;
  SafetensorsFile io_;
  ModelConfig config_;
  test::Parameters parameters_;
  std::unique_ptr<Backend> backend_;
  test::Rows rows_;
};

TEST_P(Reference, HasTheSameLogitsHiddenStatesAndRouterLogits) {
  Transformer transformer = make_transformer();
  std::vector<double> hidden, router, logits;
  const auto append = [](std::vector<double>& to, ConstView view) {
    const std::vector<double> values = test::to_double(view);
    to.insert(to.end(), values.begin(), values.end());
  };
  transformer.set_probe([&](std::string_view what, Index, ConstView value) { append(what == "hidden" ? hidden : router, value); });
  const auto result = transformer.forward(rows_.batch(), [&](Index first_row, ConstView block) {
    EXPECT_EQ(first_row * config_.vocab_size, static_cast<Index>(logits.size()));
    append(logits, block);
  });
  test::expect_near("logits", logits, floats("logits"), kBound);
  test::expect_near("hidden states", hidden, floats("hidden_states"), kBound);
  if (config_.is_moe) test::expect_near("router logits", router, floats("router_logits"), kBound);
  EXPECT_EQ(result.valid_labels, rows_.valid_labels());
  test::expect_near("lm_loss", {result.lm_loss_sum / static_cast<double>(result.valid_labels)}, floats(labelled("lm_loss")), 2e-6);
}

TEST_P(Reference, HasTheSameLossesAndEveryGradient) {
  Transformer transformer = make_transformer();
  const auto result = transformer.forward_backward(rows_.batch(), test::scale_of(rows_, kAuxCoefficient), {});
  const double lm_loss = result.lm_loss_sum / static_cast<double>(result.valid_labels);
  test::expect_near("lm_loss", {lm_loss}, floats(labelled("lm_loss")), 2e-6);
  if (config_.is_moe) test::expect_near("aux_loss", {result.aux_loss}, floats(labelled("aux_loss")), 2e-6);
  test::expect_near("loss", {lm_loss + kAuxCoefficient * result.aux_loss}, floats(labelled("loss")), 2e-6);

  double squares = 0;
  for (std::size_t i = 0; i < parameters_.specs().size(); ++i) {
    const ParamSpec& spec = parameters_.specs()[i];
    const std::vector<double> got = parameters_.gradient(i);
    for (const double value : got) squares += value * value;
    // Expert by expert: each tensor is held to its own largest element.
    const Index entries = spec.is_stacked() ? spec.shape[0] : 1;
    const std::vector<double> want = wanted_gradient(spec);
    const auto part = [&](const std::vector<double>& all, Index entry) {
      const auto size = static_cast<std::ptrdiff_t>(all.size()) / entries;
      return std::vector<double>(all.begin() + entry * size, all.begin() + (entry + 1) * size);
    };
    for (Index entry = 0; entry < entries; ++entry) test::expect_near(spec.tensor_name(entry), part(got, entry), part(want, entry), kBound);
  }
  test::expect_near("grad_norm", {std::sqrt(squares)}, floats(labelled("grad_norm")), kBound);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* labels : {"all", "masked"}) {
    for (const char* backend : {"ref", "cpu"}) {
      for (const char* folder : {"tiny-olmo", "tiny-olmo-clip"}) all.push_back({folder, backend, "fast", labels});
      for (const char* folder : {"tiny-olmoe", "tiny-olmoe-norm"}) {
        for (const char* implementation : {"fast", "reference"}) all.push_back({folder, backend, implementation, labels});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transformers, Reference, testing::ValuesIn(cases()), [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace optimus
