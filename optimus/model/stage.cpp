#include "optimus/model/stage.hpp"

#include "optimus/comm/stages.hpp"

namespace optimus {

LayerRange all_layers(const ModelConfig& model) { return {.begin = 0, .end = model.num_hidden_layers}; }

std::vector<LayerRange> stage_chunks(const ModelConfig& model, const ParallelConfig& parallel, Index stage) {
  const Index num_chunks = parallel.pp * parallel.virtual_stages;
  const std::vector<Index> begins = cut_layers(model.num_hidden_layers, num_chunks, parallel.layers_per_stage);
  std::vector<LayerRange> chunks;
  for (Index chunk = stage; chunk < num_chunks; chunk += parallel.pp) {
    const auto at = static_cast<std::size_t>(chunk);
    chunks.push_back({.begin = begins[at], .end = begins[at + 1], .has_embedding = chunk == 0, .has_head = chunk == num_chunks - 1});
  }
  return chunks;
}

std::vector<ParamSpec> parameter_specs(const ModelConfig& model, const LayerRange& layers) {
  const bool is_tied_apart = model.tie_word_embeddings && layers.has_embedding != layers.has_head;
  std::vector<ParamSpec> specs;
  for (ParamSpec& spec : parameter_specs(model)) {
    if (spec.layer < 0 && layers.has_embedding) {
      spec.is_tied = is_tied_apart;
      specs.push_back(std::move(spec));
    } else if (layers.contains(spec.layer) || (spec.layer == model.num_hidden_layers && layers.has_head)) {
      specs.push_back(std::move(spec));
    }
  }
  if (layers.has_head && is_tied_apart) {
    ParamSpec head = parameter_specs(model).front();
    head.is_tied = true;
    head.layer = model.num_hidden_layers;  // its gradient is complete with the head's
    specs.push_back(std::move(head));
  }
  return specs;
}

std::vector<ParamSpec> parameter_specs(const ModelConfig& model, const std::vector<LayerRange>& chunks) {
  std::vector<ParamSpec> specs;
  for (const LayerRange& chunk : chunks) {
    for (ParamSpec& spec : parameter_specs(model, chunk)) specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace optimus
