#include "tests/invariance/layouts/layouts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace optimus::test {
namespace {

/// The choices beside the mesh. Each list is walked through on its own.
struct Options {
  std::vector<std::string> pipelines;
  std::vector<std::string> dispatchers = {"moe.dispatcher=all_gather", "moe.dispatcher=all_to_all"};
  std::vector<std::string> shardings = {"parallel.optimizer_sharding=epso", "parallel.optimizer_sharding=so", "parallel.optimizer_sharding=none"};
  std::vector<std::string> recomputations = {"recompute={}", "recompute={norm=true, attention=true, moe=true}"};
  std::vector<std::string> sequences = {"parallel.sequence_parallel=true", "parallel.sequence_parallel=false"};
  std::vector<std::string> orders = {"parallel.order=dp-pp-ep-tp", "parallel.order=pp-dp-ep-tp"};
  std::vector<std::string> overlaps = {"parallel.overlap=true", "parallel.overlap=false"};
  std::vector<Index> micro_batches = {1, 2};
};

/// What makes a difference with these degrees.
Options options_of(const ModelCase& model, const Layout& mesh) {
  Options o;
  o.pipelines = {"parallel.pipeline_schedule=1f1b"};
  if (mesh.pp > 1) {
    o.pipelines.insert(o.pipelines.end(), {"parallel.pipeline_schedule=gpipe", "parallel.pipeline_schedule=zero_bubble"});
    if (model.layers >= 2 * mesh.pp) o.pipelines.push_back("parallel.pipeline_schedule=interleaved parallel.virtual_stages=2");
  }
  if (mesh.ep == 1) o.dispatchers.resize(1);
  if (mesh.tp == 1) o.sequences.resize(1);
  if (mesh.dp == 1 || mesh.pp == 1) o.orders.resize(1);
  if (mesh.dp * mesh.ep == 1) o.shardings.resize(1);
  return o;
}

void set(Layout& layout, const std::string& words) {
  for (std::size_t begin = 0; begin < words.size();) {
    const bool is_table = words.find('{') != std::string::npos;
    const std::size_t end = is_table ? words.size() : std::min(words.find(' ', begin), words.size());
    layout.settings.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Interleaving needs a multiple of pp micro-batches.
bool is_possible(const Layout& layout, const std::string& pipeline, Index global_batch) {
  const Index micro_batches = global_batch / layout.dp / layout.ep / layout.micro_batch;
  return pipeline.find("interleaved") == std::string::npos || micro_batches % layout.pp == 0;
}

std::vector<Layout> meshes(const ModelCase& model, Index most_ranks) {
  std::vector<Layout> list;
  for (Index dp = 1; dp <= most_ranks; dp *= 2) {
    for (Index tp = 1; dp * tp <= most_ranks; tp *= 2) {
      for (Index ep = 1; dp * tp * ep <= most_ranks; ep *= 2) {
        for (Index pp = 1; dp * tp * ep * pp <= most_ranks; pp *= 2) {
          if (pp <= model.layers && (model.is_moe || ep == 1)) list.push_back({.dp = dp, .tp = tp, .ep = ep, .pp = pp});
        }
      }
    }
  }
  return list;
}

constexpr const char* kTinyOlmoe = R"(
[model]
vocab_size = 512
hidden_size = 64
num_hidden_layers = 2
num_attention_heads = 8
intermediate_size = 32
num_experts = 8
num_experts_per_tok = 2
)";
constexpr const char* kTinyOlmo = R"(
[model]
model_type = "olmo"
vocab_size = 512
hidden_size = 64
num_hidden_layers = 2
num_attention_heads = 8
intermediate_size = 176
tie_word_embeddings = true
)";
// Two key/value heads for eight query heads, one expert a token, a vocabulary that nothing divides, three layers.
constexpr const char* kOdd = R"(
[model]
vocab_size = 61
hidden_size = 64
num_hidden_layers = 3
num_attention_heads = 8
num_key_value_heads = 2
intermediate_size = 24
num_experts = 8
num_experts_per_tok = 1
clip_qkv = 2.0
tie_word_embeddings = true
[moe]
z_loss_coefficient = 0.001
)";
constexpr const char* kDeep = R"(
[model]
vocab_size = 53
hidden_size = 32
num_hidden_layers = 8
num_attention_heads = 8
num_key_value_heads = 4
intermediate_size = 16
num_experts = 8
num_experts_per_tok = 3
norm_topk_prob = true
)";

}  // namespace

std::string Layout::str() const {
  std::string text = fmt::format("dp {} tp {} ep {} pp {} micro_batch {}", dp, tp, ep, pp, micro_batch);
  for (const std::string& setting : settings) text += ", " + setting;
  return text;
}

std::vector<ModelCase> model_cases() {
  return {{.name = "tiny-olmoe", .text = kTinyOlmoe, .layers = 2},
          {.name = "tiny-olmo", .text = kTinyOlmo, .layers = 2, .is_moe = false},
          {.name = "odd", .text = kOdd, .layers = 3},
          // Eight layers make more of a rounding error in five such steps.
          {.name = "deep", .text = kDeep, .layers = 8, .sgd_bound = 5e-5}};
}

std::vector<Layout> covering_layouts(const ModelCase& model, Index most_ranks, std::size_t first) {
  std::vector<Layout> list;
  std::size_t turn = first;
  const std::vector<Layout> all = meshes(model, most_ranks);
  for (std::size_t at = first % 3; at < all.size(); at += 3) {
    const Layout& mesh = all[at];
    const Options o = options_of(model, mesh);
    // Every choice that this mesh has comes up once; the lists have different lengths and begin elsewhere for each mesh, so that their pairs mix.
    const std::size_t rounds = std::max({o.pipelines.size(), o.dispatchers.size(), o.sequences.size()});
    for (std::size_t round = 0; round < rounds; ++round, ++turn) {
      const auto pick = [&](const auto& choices, std::size_t divisor) { return choices[(turn / divisor + round) % choices.size()]; };
      Layout layout = mesh;
      layout.micro_batch = o.micro_batches[(turn / 2) % o.micro_batches.size()];
      const std::string pipeline = o.pipelines[round % o.pipelines.size()];
      if (!is_possible(layout, pipeline, 16)) layout.micro_batch = 1;
      if (!is_possible(layout, pipeline, 16)) continue;
      set(layout, pipeline);
      set(layout, o.dispatchers[round % o.dispatchers.size()]);
      set(layout, o.sequences[round % o.sequences.size()]);
      set(layout, pick(o.shardings, 1));
      set(layout, pick(o.recomputations, 1));
      set(layout, pick(o.orders, 3));
      set(layout, pick(o.overlaps, 2));
      list.push_back(layout);
    }
  }
  return list;
}

std::vector<Layout> all_layouts(const ModelCase& model, Index most_ranks) {
  std::vector<Layout> list;
  for (const Layout& mesh : meshes(model, most_ranks)) {
    const Options o = options_of(model, mesh);
    const std::vector<const std::vector<std::string>*> lists = {&o.pipelines, &o.dispatchers, &o.shardings, &o.recomputations, &o.sequences, &o.orders};
    std::size_t count = 1;
    for (const auto* choices : lists) count *= choices->size();
    for (std::size_t code = 0; code < count; ++code) {
      Layout layout = mesh;
      layout.micro_batch = o.micro_batches[code % 2];
      if (!is_possible(layout, o.pipelines[code % o.pipelines.size()], 16)) layout.micro_batch = 1;
      if (!is_possible(layout, o.pipelines[code % o.pipelines.size()], 16)) continue;
      std::size_t rest = code;
      for (const auto* choices : lists) {
        set(layout, (*choices)[rest % choices->size()]);
        rest /= choices->size();
      }
      set(layout, o.overlaps[code % 2]);
      list.push_back(layout);
    }
  }
  return list;
}

}  // namespace optimus::test
