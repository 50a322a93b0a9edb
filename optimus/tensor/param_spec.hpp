#pragma once
// What the rest of the program knows of a model: a list of named, shaped, initialised parameters.

#include <optional>
#include <string>
#include <vector>

#include "optimus/tensor/shape.hpp"

namespace optimus {

/// How a parameter starts.
enum class Init { kNormal, kOnes };

/// One logical parameter of the whole model, independent of any layout.
///
/// Initialisation, sharding, replica groups, checkpoint chunks, counts and FLOPs all follow from this list; nothing matches names.
struct ParamSpec {
  /// Hugging Face's name. A "{}" stands for the index along dimension 0: the stacked experts [E, F, D] are E tensors [F, D] on disk,
  /// for example "model.layers.0.mlp.experts.{}.gate_proj.weight".
  std::string name;
  Shape shape;  ///< of the whole parameter, in every layout the same
  Init init = Init::kNormal;
  double init_std = 0.02;         ///< of kNormal
  std::optional<Index> zero_row;  ///< row of dimension 0 that starts as 0 (the padding token's)
  std::optional<int> tp_dim;      ///< dimension split over the TP ranks; none: every TP rank holds all of it
  Index tp_heads = 0;  ///< that dimension consists of so many heads and is cut between them; with fewer heads than TP ranks several ranks hold the same one
  bool is_tp_uneven = false;  ///< that dimension may be cut into parts that differ by one (the vocabulary)
  bool is_expert = false;     ///< dimension 0 (the experts) is split over the EP ranks
  bool is_tied = false;       ///< the first and the last pipeline stage both hold it: embedding and head in one
  Index layer = -1;           ///< block number; -1: the embedding; num_hidden_layers: final norm and head

  [[nodiscard]] bool is_stacked() const { return name.find("{}") != std::string::npos; }
  /// Hugging Face's name of entry `index` of a stacked parameter; `name` itself if it is not stacked.
  [[nodiscard]] std::string tensor_name(Index index) const;
};

}  // namespace optimus
