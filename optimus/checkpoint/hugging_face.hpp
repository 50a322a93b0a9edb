#pragma once
// Weights in Hugging Face folders: model.safetensors, or an index with parts. And weights wherever they are, by one function.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// The weights of a Hugging Face folder, opened and checked against what a model needs; nothing is read until asked for.
class HfWeights {
 public:
  /// `tied_head`: the head shares the embedding; lm_head.weight may then be present or absent, but not something else than the embedding.
  /// Errors: CheckpointError with every missing, unknown, wrongly shaped or unreadable tensor and file in one message.
  HfWeights(const std::filesystem::path& folder, const std::vector<ParamSpec>& specs, bool tied_head);
  ~HfWeights();
  HfWeights(HfWeights&&) noexcept;
  /// Elements [flat_begin, flat_begin + out.count()) of `box` of the parameter, converted (bf16, f16, f32 on disk) to out's f32.
  /// Errors: CheckpointError naming the file if it cannot be read, or the tensor if a value is NaN or infinite.
  void read(const ParamSpec& spec, const Box& box, Index flat_begin, View out) const;
  /// The narrowest type that holds every weight exactly: bf16 if all are stored so, else f32.
  [[nodiscard]] DType exact_dtype() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Fills `out` (f32) with elements [flat_begin, flat_begin + out.count()) of `box` of a parameter.
using WeightReader = std::function<void(const ParamSpec& spec, const Box& box, Index flat_begin, View out)>;

/// A model that a user named: a Hugging Face folder, a checkpoint, or a run folder (its newest complete checkpoint).
struct ModelSource {
  std::filesystem::path folder;  ///< the Hugging Face folder or the checkpoint
  bool is_checkpoint = false;
  std::string config_json;    ///< its config.json
  std::string config_origin;  ///< what messages call that
  std::string weights_dtype;  ///< of a checkpoint: "bf16", "f32"; else empty
};
/// Errors: CheckpointError if `path` is none of them.
[[nodiscard]] ModelSource find_model(const std::filesystem::path& path);

/// Which of a checkpoint's copies of a weight to read.
enum class WeightCopy {
  kWeights,        ///< what the forward pass computes with
  kMasterIfThere,  ///< the fp32 master, if the checkpoint has it
};
/// The weights of `source`, all checked before this returns: of a checkpoint every checksum, of a Hugging Face folder as HfWeights does.
/// Errors: CheckpointError with every problem in one message.
[[nodiscard]] WeightReader open_weights(const ModelSource& source, const std::vector<ParamSpec>& specs, bool tied_head, WeightCopy copy = WeightCopy::kWeights);

/// A source of whole tensors: fills `out` (f32) with Hugging Face tensor number `entry` of `spec`.
using TensorSource = std::function<void(const ParamSpec& spec, Index entry, View out)>;

/// Writes config.json and model.safetensors (or parts of at most `max_part_bytes` with an index) so that `transformers` loads them without a warning.
///
/// Weight files that an earlier export left in the folder are replaced or removed, once all new bytes are on disk; other files stay.
/// One tensor in memory at a time.  Types: f32 or bf16.  Errors: FileError.
void write_hf_folder(const std::filesystem::path& folder, const std::string& config_json, const std::vector<ParamSpec>& specs, DType dtype,
                     const TensorSource& source, Index max_part_bytes = Index{5} * 1000 * 1000 * 1000);

}  // namespace optimus
