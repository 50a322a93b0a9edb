#pragma once
// What the tests of whole models share: parameters with memory of their own, micro-batches, reference files, comparisons. Not for the product.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/model/transformer.hpp"

namespace optimus::test {

/// Weights and gradients of a model. Fresh gradients are 0.
class Parameters {
 public:
  Parameters(const ModelConfig& config, DType weights, DType gradients);
  /// Initial values; gains get some spread, so that no test passes because they are 1.
  void initialize(std::uint64_t seed);
  /// The tensors of a Hugging Face file, one for each expert.
  void load(const std::filesystem::path& path);
  void zero_gradients();

  [[nodiscard]] const std::vector<ParamSpec>& specs() const { return specs_; }
  [[nodiscard]] const std::vector<View>& weights() const { return weights_; }
  [[nodiscard]] const std::vector<View>& gradients() const { return gradients_; }
  /// The bytes of all gradients, to compare runs bit by bit.
  [[nodiscard]] std::string gradient_bytes() const;
  /// Elements of view i, in double.
  [[nodiscard]] std::vector<double> gradient(std::size_t i) const;

 private:
  void set_weight(std::size_t i, const std::vector<float>& values);
  std::vector<ParamSpec> specs_;
  std::vector<Buffer> memory_;
  std::vector<View> weights_, gradients_;
};

/// Rows with their own memory.
struct Rows {
  Index sequences = 0, sequence_length = 0;
  std::vector<std::int32_t> inputs, labels;
  [[nodiscard]] MicroBatch batch() const { return {sequences, sequence_length, inputs, labels}; }
  /// Sequences [begin, end).
  [[nodiscard]] Rows slice(Index begin, Index end) const;
  [[nodiscard]] Index valid_labels() const;
};
/// Ids spread over the vocabulary, the same for the same seed; label i is input i + 1.
[[nodiscard]] Rows random_rows(const ModelConfig& config, Index sequences, Index sequence_length, std::uint64_t seed = 7);

/// Any element type as doubles.
[[nodiscard]] std::vector<double> to_double(ConstView view);

/// Fails unless every |got - want| <= bound * max(max|want|, scale); names the worst element. `scale`: of what the values are a difference of, where they may cancel.
void expect_near(std::string_view what, const std::vector<double>& got, const std::vector<double>& want, double bound, double scale = 0);

/// "ref", "cpu" (two threads) or "cpu_one_thread".
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::string_view name);

/// A small model of either kind, to be changed by the test.
[[nodiscard]] ModelConfig small_moe();
[[nodiscard]] ModelConfig small_dense();

/// 1 / valid labels, and the coefficients of the two losses on the routing for one micro-batch.
[[nodiscard]] LossScale scale_of(const Rows& rows, double aux_coefficient = 0.01, double z_coefficient = 0.0);

}  // namespace optimus::test
