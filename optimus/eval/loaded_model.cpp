#include "optimus/eval/loaded_model.hpp"

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

LoadedModel load(Backend& backend, const std::filesystem::path& path, DType dtype) {
  const ModelSource source = find_model(path);
  LoadedModel model{.config = parse_hf_config(source.config_json, source.config_origin), .dtype = dtype};
  const std::vector<ParamSpec> specs = parameter_specs(model.config);
  const WeightReader read = open_weights(source, specs, model.config.tie_word_embeddings);
  model.weights = lay_out(specs, dtype, model.memory);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const View flat = model.weights[i].reshaped({model.weights[i].count()});
    if (dtype == DType::kF32) {
      read(specs[i], Box::whole(specs[i].shape), 0, flat);
      continue;
    }
    const Buffer unrounded(flat.count() * dtype_bytes(DType::kF32));
    const View values(unrounded.data(), DType::kF32, {flat.count()});
    read(specs[i], Box::whole(specs[i].shape), 0, values);
    ops::convert(backend, values, flat);
  }
  return model;
}

}  // namespace

LoadedModel load_model(Communicator& world, Backend& backend, const std::filesystem::path& folder, DType dtype) {
  LoadedModel model;
  agree(world, [&] { model = load(backend, folder, dtype); });
  return model;
}

}  // namespace optimus
