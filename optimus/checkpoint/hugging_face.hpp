#pragma once
// Weights in Hugging Face folders: model.safetensors, or an index with parts.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// The weights of a Hugging Face folder, opened and checked against what a model needs; nothing is read until asked for.
class HfWeights {
 public:
  /// `tied_head`: the head shares the embedding; lm_head.weight may then be present or absent.
  /// Errors: CheckpointError with every missing, unknown, wrongly shaped or unreadable tensor and file in one message.
  HfWeights(const std::filesystem::path& folder, const std::vector<ParamSpec>& specs, bool tied_head);
  ~HfWeights();
  /// Elements [flat_begin, flat_begin + out.count()) of `box` of the parameter, converted (bf16, f16, f32 on disk) to out's f32.
  void read(const ParamSpec& spec, const Box& box, Index flat_begin, View out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A source of whole tensors: fills `out` (f32) with Hugging Face tensor number `entry` of `spec`.
using TensorSource = std::function<void(const ParamSpec& spec, Index entry, View out)>;

/// Writes config.json and model.safetensors (or parts of at most `max_part_bytes` with an index) so that `transformers` loads them without a warning.
/// One tensor in memory at a time. Errors: FileError.
void write_hf_folder(const std::filesystem::path& folder, const std::string& config_json, const std::vector<ParamSpec>& specs, DType dtype, const TensorSource& source,
                     Index max_part_bytes = Index{5} * 1000 * 1000 * 1000);

}  // namespace optimus
