// Scores and generated ids against what transformers computes for the small reference models.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/eval/generate.hpp"
#include "optimus/eval/scorer.hpp"

namespace optimus {
namespace {

const std::filesystem::path kReference = std::filesystem::path(OPTIMUS_SOURCE_DIR) / "tests/data/reference";

class ReferenceModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = kReference / GetParam();
    model_ = load_model(*world_, *backend_, folder_, DType::kF32);
    const SafetensorsFile io(folder_ / "io.safetensors");
    const SafetensorsEntry* tokens = io.find("tokens");
    rows_ = tokens->shape[0];
    width_ = tokens->shape[1];
    tokens_.resize(static_cast<std::size_t>(rows_ * width_));
    io.read(*tokens, View(reinterpret_cast<std::byte*>(tokens_.data()), DType::kI32, tokens->shape));
    const SafetensorsEntry* logits = io.find("logits");
    logits_.resize(static_cast<std::size_t>(logits->shape.count()));
    io.read(*logits, View(reinterpret_cast<std::byte*>(logits_.data()), DType::kF32, logits->shape));
  }

  [[nodiscard]] std::vector<std::int32_t> row(Index i, Index length) const { return {tokens_.begin() + i * width_, tokens_.begin() + i * width_ + length}; }
  [[nodiscard]] std::span<const float> reference_logits(Index row, Index position) const {
    const Index vocab = model_.config.vocab_size;
    return std::span(logits_).subspan(static_cast<std::size_t>((row * (width_ - 1) + position) * vocab), static_cast<std::size_t>(vocab));
  }
  /// log softmax of the reference's logits, in double.
  [[nodiscard]] double reference_logprob(Index row, Index position, std::int32_t id) const {
    const auto logits = reference_logits(row, position);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    return static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(sum);
  }

  std::filesystem::path folder_;
  std::unique_ptr<Communicator> world_ = make_self_communicator();
  std::unique_ptr<Backend> backend_ = make_cpu_backend(2);
  LoadedModel model_;
  Index rows_ = 0, width_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logits_;
};

TEST_P(ReferenceModel, LogprobsOfAnyContinuationAreThoseOfTransformers) {
  std::vector<EncodedRequest> requests;
  std::vector<double> expected;
  for (Index r = 0; r < rows_; ++r) {
    for (const Index length : {Index{2}, Index{3}, Index{17}, width_}) {
      for (const Index scored : {Index{1}, length / 2, length - 1}) {
        const EncodedRequest request{.ids = row(r, length), .continuation_tokens = std::max<Index>(scored, 1)};
        double sum = 0;
        for (Index i = length - request.continuation_tokens; i < length; ++i) sum += reference_logprob(r, i - 1, request.ids[static_cast<std::size_t>(i)]);
        requests.push_back(request);
        expected.push_back(sum);
      }
    }
  }
  const std::vector<RequestScore> scores = score_requests(*world_, *backend_, model_, requests);
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i].logprob, expected[i], 3e-6 * std::max(1.0, std::abs(expected[i]))) << "request " << i;
}

TEST_P(ReferenceModel, AContinuationOfArgmaxesIsGreedyAndAnyOtherIsNot) {
  const std::vector<std::int32_t> context = row(0, 9);
  const auto logits = reference_logits(0, 8);
  const auto best = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<EncodedRequest> requests(2, {.ids = context, .continuation_tokens = 1});
  requests[0].ids.push_back(best);
  requests[1].ids.push_back(best == 0 ? 1 : best - 1);
  const std::vector<RequestScore> scores = score_requests(*world_, *backend_, model_, requests);
  EXPECT_TRUE(scores[0].is_greedy);
  EXPECT_FALSE(scores[1].is_greedy);
}

TEST_P(ReferenceModel, TheFirstGeneratedIdIsTheArgmaxAndTheCacheChangesNothing) {
  const auto logits = reference_logits(0, 8);
  const auto best = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const std::vector<std::int32_t> prompt = row(0, 9);
  for (const double temperature : {0.0, 1.0}) {
    const SamplingOptions options{.max_new_tokens = 24, .temperature = temperature, .seed = 5};
    const auto cached = generate(*backend_, model_, prompt, std::nullopt, options, true);
    const auto rerun = generate(*backend_, model_, prompt, std::nullopt, options, false);
    EXPECT_EQ(cached, rerun) << "temperature " << temperature;
    EXPECT_EQ(cached.size(), 24U);
    if (temperature == 0.0) {
      EXPECT_EQ(cached.front(), best);
    }
  }
}

TEST_P(ReferenceModel, GenerationStopsAtTheEndOfADocumentAndAtTheLastPosition) {
  const std::vector<std::int32_t> prompt = row(1, 5);
  const SamplingOptions greedy{.max_new_tokens = 1000, .temperature = 0};
  const auto all = generate(*backend_, model_, prompt, std::nullopt, greedy);
  EXPECT_EQ(static_cast<Index>(all.size()), model_.config.max_position_embeddings - 5 + 1);
  EXPECT_TRUE(generate(*backend_, model_, prompt, all.front(), greedy).empty());
  EXPECT_THROW((void)generate(*backend_, model_, {}, std::nullopt, greedy), DataError);
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceModel, ::testing::Values("tiny-olmoe", "tiny-olmoe-norm", "tiny-olmo", "tiny-olmo-clip"), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace optimus
