#pragma once
// A model computed by several ranks together, for tests: each holds its parts of the same whole parameters, and what all of them leave in the gradients is put
// together again, to be compared with the model on one rank. Programs with RANKS only. Not for the product.

#include <memory>
#include <string_view>
#include <vector>

#include "optimus/comm/mesh.hpp"
#include "tests/support/model_testing.hpp"

namespace optimus::test {

/// This rank's parts of whole parameters, with memory of their own. Fresh gradients are 0.
class ParameterParts {
 public:
  ParameterParts(const Parameters& whole, const ModelSplit& split, DType gradients);
  [[nodiscard]] const std::vector<View>& weights() const { return weights_; }
  [[nodiscard]] const std::vector<View>& gradients() const { return gradients_; }
  void zero_gradients();
  /// The bytes of this rank's gradients, to compare runs bit by bit.
  [[nodiscard]] std::string gradient_bytes() const;

 private:
  std::vector<Buffer> memory_;
  std::vector<View> weights_, gradients_;
};

/// What one forward and backward gives: sums of -log p and of labels over all rows, means of the other losses over the data ranks, and all whole gradients in the
/// order of parameter_specs().
struct Outcome {
  MicroBatchResult losses;
  std::vector<std::vector<double>> gradients;
};

/// The degrees of the axes that share a model. Ranks left over are data parallel.
struct SharedBy {
  Index tp = 1, ep = 1;
  bool sequence_parallel = false;
};

/// One model on all ranks of the program.
///
/// Collective: over test::world(), construction and outcome().
class SplitModel {
 public:
  /// `options` without its split. Weights as Parameters::initialize gives them.
  SplitModel(TransformerOptions options, const SharedBy& shared_by, std::string_view backend = "ref");

  /// Forward and backward of this data rank's share of the sequences of `all`; the coefficients in `scale` are those of one micro-batch of all rows.
  MicroBatchResult forward_backward(const Rows& all, const LossScale& scale);
  /// forward_backward from gradients of 0, and what all ranks made of it. Fails unless the members of a TP group have the same losses, and the ranks that hold the
  /// same heads the same gradients, bit by bit.
  [[nodiscard]] Outcome outcome(const Rows& all, const LossScale& scale);

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] const ModelSplit& split() const { return options_.split; }
  [[nodiscard]] const TransformerOptions& options() const { return options_; }
  [[nodiscard]] const std::vector<ParamSpec>& specs() const { return specs_; }
  [[nodiscard]] ParameterParts& parameters() { return parts_; }
  [[nodiscard]] Transformer& transformer() { return transformer_; }
  [[nodiscard]] Communicator* tp() const { return tp_.get(); }
  [[nodiscard]] Communicator* ep() const { return ep_.get(); }
  /// This data rank's sequences.
  [[nodiscard]] Rows own_rows(const Rows& all) const;

 private:
  [[nodiscard]] std::vector<double> own_part(std::size_t i) const;
  [[nodiscard]] MicroBatchResult over_all(const MicroBatchResult& own) const;

  Mesh mesh_;
  TransformerOptions options_;
  std::vector<ParamSpec> specs_;
  std::unique_ptr<Communicator> tp_, ep_;
  std::unique_ptr<Backend> backend_;
  ParameterParts parts_;
  Transformer transformer_;
  std::vector<std::int64_t> global_counts_;
};

/// The same on one rank, which computes the rows of each data rank one after another.
[[nodiscard]] Outcome outcome_on_one_rank(const TransformerOptions& options, Index data_ranks, const Rows& all, const LossScale& scale,
                                          std::string_view backend = "ref");

/// Fails unless every loss and every gradient of `got` is within `bound` of `want`, relative to the largest element of each.
void expect_same(const Outcome& got, const Outcome& want, const std::vector<ParamSpec>& specs, double bound);

/// The model shared by ranks gives what it gives on one rank, within `bound`: 1e-12 with f64 on "ref", 1e-5 with f32.
void expect_as_on_one_rank(const TransformerOptions& options, const SharedBy& shared_by, const Rows& all, const LossScale& scale, std::string_view backend,
                           double bound);

}  // namespace optimus::test
