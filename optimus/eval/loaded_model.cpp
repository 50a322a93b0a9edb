#include "optimus/eval/loaded_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/ops/misc.hpp"

namespace optimus {
namespace {

/// Views of all parameters, one after another in `memory`, each on a cache line.
std::vector<View> lay_out(const std::vector<ParamSpec>& specs, DType dtype, Buffer& memory) {
  constexpr Index kLine = 64;
  Index bytes = 0;
  for (const ParamSpec& spec : specs) bytes += round_up(spec.shape.count() * dtype_bytes(dtype), kLine);
  memory = Buffer(bytes);
  std::vector<View> views;
  Index offset = 0;
  for (const ParamSpec& spec : specs) {
    views.emplace_back(memory.data() + offset, dtype, spec.shape);
    offset += round_up(views.back().bytes(), kLine);
  }
  return views;
}

/// Converts `stored` into the model's own memory, or takes it over if the type is right.
void adopt(LoadedModel& model, Backend& backend, const std::vector<ParamSpec>& specs, Buffer stored_memory, const std::vector<View>& stored, DType dtype) {
  model.dtype = dtype;
  if (stored.empty() || stored.front().dtype() == dtype) {
    model.memory = std::move(stored_memory);
    model.weights = stored;
    return;
  }
  model.weights = lay_out(specs, dtype, model.memory);
  for (std::size_t i = 0; i < stored.size(); ++i) ops::convert(backend, stored[i], model.weights[i]);
}

LoadedModel load_hugging_face(Communicator& world, Backend& backend, const fs::path& folder, DType dtype) {
  LoadedModel model;
  agree(world, [&] {
    model.config = read_hf_config(folder / "config.json");
    const auto specs = parameter_specs(model.config);
    const HfWeights source(folder, specs, model.config.tie_word_embeddings);
    Buffer memory;
    const std::vector<View> views = lay_out(specs, DType::kF32, memory);
    for (std::size_t i = 0; i < specs.size(); ++i) source.read(specs[i], Box::whole(specs[i].shape), 0, views[i].reshaped({views[i].count()}));
    adopt(model, backend, specs, std::move(memory), views, dtype);
  });
  return model;
}

LoadedModel load_checkpoint(Communicator& world, Backend& backend, const fs::path& folder, DType dtype) {
  LoadedModel model;
  std::vector<ParamSpec> specs;
  std::vector<View> views;
  std::vector<Chunk> chunks;
  Buffer memory;
  agree(world, [&] {
    const CheckpointInfo info = inspect_checkpoint(folder);
    model.config = parse_hf_config(info.hf_config, (folder / "manifest.json").string());
    specs = parameter_specs(model.config);
    views = lay_out(specs, info.weights_dtype == "bf16" ? DType::kBF16 : DType::kF32, memory);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      chunks.push_back({.name = "model." + specs[i].name, .global_shape = specs[i].shape, .box = Box::whole(specs[i].shape), .flat_begin = 0, .data = views[i].reshaped({views[i].count()})});
    }
  });
  (void)read_checkpoint(world, folder, chunks);
  adopt(model, backend, specs, std::move(memory), views, dtype);
  return model;
}

/// The newest checkpoint of a run folder, full state or model only.
fs::path newest_checkpoint(const fs::path& run_dir) {
  const fs::path pointer = run_dir / "checkpoints" / "latest";
  if (fs::exists(pointer)) {
    std::vector<std::string> damaged;
    const auto candidates = CheckpointStore(run_dir).candidates(damaged);
    if (!candidates.empty()) return candidates.front().folder;
    throw CheckpointError(fmt::format("[model] no complete checkpoint in {}: {}", run_dir.string(), fmt::join(damaged, "; ")));
  }
  throw CheckpointError(fmt::format("[model] {} is no model: a Hugging Face folder has config.json, a checkpoint manifest.json, a run folder checkpoints/latest", run_dir.string()));
}

}  // namespace

LoadedModel load_model(Communicator& world, Backend& backend, const std::filesystem::path& folder, DType dtype) {
  if (fs::exists(folder / "manifest.json")) return load_checkpoint(world, backend, folder, dtype);
  if (fs::exists(folder / "config.json")) return load_hugging_face(world, backend, folder, dtype);
  fs::path newest;
  agree(world, [&] { newest = newest_checkpoint(folder); });
  return load_checkpoint(world, backend, newest, dtype);
}

}  // namespace optimus
