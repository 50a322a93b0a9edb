// Weights of a model wherever they are.
#include <fmt/format.h>

#include <memory>
#include <system_error>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/fill.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/verified.hpp"

namespace optimus {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

Chunk weight_chunk(const std::string& prefix, const ParamSpec& spec, const Box& box, Index flat_begin, View out) {
  return {.name = prefix + spec.name, .global_shape = spec.shape, .box = box, .flat_begin = flat_begin, .data = out};
}

// Shared, because a std::function is copied.
WeightReader reader_of(std::shared_ptr<CheckpointReader> reader, const std::string& prefix) {
  return
      [reader, prefix](const ParamSpec& spec, const Box& box, Index flat_begin, View out) { reader->fill(weight_chunk(prefix, spec, box, flat_begin, out)); };
}

/// The whole of a weight, without memory.
Chunk whole_weight(const std::string& prefix, const ParamSpec& spec) {
  return weight_chunk(prefix, spec, Box::whole(spec.shape), 0, View(nullptr, DType::kF32, {spec.shape.count()}));
}

WeightReader open_checkpoint_weights(const std::filesystem::path& folder, const std::vector<ParamSpec>& specs, WeightCopy copy) {
  std::vector<std::string> problems = verify_checkpoint(folder);
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {} cannot be loaded", folder.string()), problems);
  auto reader = std::make_shared<CheckpointReader>(read_manifest(folder));
  const bool has_master = !specs.empty() && reader->manifest().find_tensor("master." + specs.front().name) >= 0;
  const std::string prefix = copy == WeightCopy::kMasterIfThere && has_master ? "master." : "model.";
  for (const ParamSpec& spec : specs) {
    const std::string problem = reader->problem(whole_weight(prefix, spec));
    if (!problem.empty()) problems.push_back(problem);
  }
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {} does not fit the model", folder.string()), problems);
  return reader_of(std::move(reader), prefix);
}

}  // namespace

WeightReader open_checkpoint_weights(Communicator& world, const std::filesystem::path& folder, const std::vector<ParamSpec>& specs) {
  std::vector<Chunk> chunks;
  chunks.reserve(specs.size());
  for (const ParamSpec& spec : specs) chunks.push_back(whole_weight("model.", spec));
  return reader_of(std::make_shared<CheckpointReader>(open_verified(world, folder, chunks)), "model.");
}

ModelSource find_model(const std::filesystem::path& path) {
  if (is_there(path / "config.json")) {
    try {
      return {.folder = path,
              .is_checkpoint = false,
              .config_json = read_file(path / "config.json"),
              .config_origin = (path / "config.json").string(),
              .weights_dtype = ""};
    } catch (const FileError& error) {
      throw CheckpointError(fmt::format("[hugging face] {}", error.what()));
    }
  }
  if (!is_there(path)) throw CheckpointError(fmt::format("[checkpoint] {} does not exist", path.string()));
  if (!is_there(path / "manifest.json") && !is_there(path / "checkpoints")) {
    throw CheckpointError(fmt::format(
        "[checkpoint] {} is no model: it has no config.json (a Hugging Face folder), no manifest.json (a checkpoint) and no checkpoints (a run folder)",
        path.string()));
  }
  const CheckpointInfo info = find_checkpoint(path);
  return {.folder = info.folder,
          .is_checkpoint = true,
          .config_json = info.hf_config,
          .config_origin = (info.folder / "manifest.json").string() + " (hf_config)",
          .weights_dtype = info.weights_dtype};
}

WeightReader open_weights(const ModelSource& source, const std::vector<ParamSpec>& specs, bool tied_head, WeightCopy copy) {
  if (source.is_checkpoint) return open_checkpoint_weights(source.folder, specs, copy);
  auto weights = std::make_shared<HfWeights>(source.folder, specs, tied_head);
  return [weights](const ParamSpec& spec, const Box& box, Index flat_begin, View out) { weights->read(spec, box, flat_begin, out); };
}

}  // namespace optimus
