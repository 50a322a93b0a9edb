// The decoder gives, token by token, the logits of the whole sequence's forward.

#include "optimus/model/decoder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

/// Logits of every position by one forward.
std::vector<std::vector<double>> forward_logits(const TransformerOptions& options, Backend& backend, const test::Parameters& parameters,
                                                const test::Rows& rows) {
  Transformer transformer(options, backend);
  transformer.bind(parameters.weights(), {});
  std::vector<std::vector<double>> logits;
  transformer.forward(rows.batch(), [&](Index, ConstView block) {
    for (Index t = 0; t < block.size(0); ++t) logits.push_back(test::to_double(block[t]));
  });
  return logits;
}

void expect_same(const ModelConfig& model, const std::string& backend_name, Index length, const std::vector<Index>& pieces) {
  const auto backend = test::make_backend(backend_name);
  const TransformerOptions options{.model = model, .moe = {}, .recompute = {}, .micro_batch = 1, .sequence_length = length, .has_backward = false};
  test::Parameters parameters(model, DType::kF32, DType::kF32);
  parameters.initialize(31);
  const test::Rows rows = test::random_rows(model, 1, length);
  const auto wanted = forward_logits(options, *backend, parameters, rows);

  Decoder decoder(options, *backend, parameters.weights(), length);
  Index done = 0;
  for (const Index piece : pieces) {
    const auto logits = decoder.append(std::span(rows.inputs).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(piece)));
    done += piece;
    EXPECT_EQ(decoder.length(), done);
    test::expect_near(fmt::format("{} after {}", backend_name, done), {logits.begin(), logits.end()}, wanted[static_cast<std::size_t>(done - 1)], 1e-5);
  }
}

TEST(Decoder, AgreesWithTheForwardOfTheWholeSequence) {
  for (const char* backend : {"ref", "cpu"}) {
    for (ModelConfig model : {test::small_moe(), test::small_dense()}) {
      expect_same(model, backend, 8, {1, 1, 1, 1, 1, 1, 1, 1});
      expect_same(model, backend, 8, {5, 1, 2});
      model.num_attention_heads = 6;
      model.num_key_value_heads = 2;
      model.clip_qkv = 0.7;
      model.tie_word_embeddings = true;
      expect_same(model, backend, 8, {3, 1, 4});
    }
  }
}

TEST(Decoder, TakesPromptsLongerThanItsBlockOfRows) {
  ModelConfig model = test::small_moe();
  model.max_position_embeddings = 600;
  expect_same(model, "cpu", 530, {523, 1, 6});
}

TEST(Decoder, SaysWhatIsWrongAndStaysUsable) {
  const ModelConfig model = test::small_moe();
  const auto backend = test::make_backend("ref");
  const TransformerOptions options{.model = model};
  test::Parameters parameters(model, DType::kF32, DType::kF32);
  parameters.initialize(31);
  EXPECT_THROW(Decoder(options, *backend, parameters.weights(), 65), ConfigError) << "beyond max_position_embeddings";
  EXPECT_THROW(Decoder(options, *backend, parameters.weights(), 0), ConfigError);
  Decoder decoder(options, *backend, parameters.weights(), 3);
  const std::vector<std::int32_t> two{1, 2}, outside{37}, none;
  (void)decoder.append(two);
  EXPECT_THROW((void)decoder.append(two), ConfigError);
  EXPECT_THROW((void)decoder.append(outside), DataError);
  EXPECT_THROW((void)decoder.append(none), ShapeError);
  EXPECT_EQ(decoder.length(), 2);
  EXPECT_EQ(decoder.append(std::span(two).first(1)).size(), 37U);
}

}  // namespace
}  // namespace optimus
