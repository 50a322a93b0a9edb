#include "optimus/model/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/backend/dry/dry_backend.hpp"
#include "optimus/model/plan.hpp"
#include "optimus/model/runtime.hpp"
#include "optimus/model/weights.hpp"
#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/misc.hpp"

namespace optimus {
namespace {

/// Rows of a prompt that go through the model at once: bounds the memory of a long one.
constexpr Index kMaxRows = 256;

/// The model over the newest rows of one sequence, with the keys and values of those before them.
class CachedNetwork {
 public:
  CachedNetwork(const TransformerOptions& options, Backend& backend, Arena& arena, bool is_planning)
      : runtime_(options, backend, {}, {arena, arena}, is_planning), logits_(arena.alloc(DType::kF32, {1, options.model.vocab_size})) {
    for (Index layer = 0; layer < options.model.num_hidden_layers; ++layer) {
      const Shape shape{options.sequence_length, options.model.kv_size()};
      cache_.push_back({.k = arena.alloc(options.weights, shape), .v = arena.alloc(options.weights, shape)});
    }
  }

  void bind(std::span<const View> weights) { weights_ = bind_weights(runtime_.options, "weight", runtime_.options.weights, weights); }

  /// `ids_T` at positions [first, first + T). The logits after the last of them, if asked for.
  void run(ConstView ids_T, Index first, bool wants_logits) {
    const ModelContext& c = runtime_.context;
    Scratch scratch(c.arena);
    runtime_.set_rows(1, ids_T.size(0), first);
    View x_TD = c.keep_rows(c.model().hidden_size), y_TD = scratch.like(x_TD);
    ops::embedding_forward(c.backend, weights_.embedding_VD, ids_T, x_TD);
    for (std::size_t layer = 0; layer < cache_.size(); ++layer) {
      run_layer(weights_.layers[layer], cache_[layer], first, x_TD, y_TD);
      std::swap(x_TD, y_TD);
    }
    if (wants_logits) run_head(x_TD.rows(x_TD.size(0) - 1, x_TD.size(0)));
  }
  [[nodiscard]] std::span<const float> logits() const { return logits_.span<float>(); }

 private:
  struct Cache {
    View k, v;
  };  ///< [longest sequence, Hkv * A]

  void run_layer(const LayerWeights& w, const Cache& cache, Index first, View x_TD, View y_TD) {
    const ModelContext& c = runtime_.context;
    const LayerContext lc = runtime_.layer_context();
    const ModelConfig& model = c.model();
    Scratch scratch(c.arena);
    RoutingStatistics statistics;
    if (model.is_moe) statistics = {scratch.alloc(DType::kI64, {1, model.num_experts}), scratch.alloc(DType::kF64, {1, model.num_experts})};
    const LayerSaved s = allocate_layer(lc, statistics);
    const Index rows = c.rows(), keys = first + rows;
    const AttentionShape shape{
        .batch = 1, .queries = rows, .keys = keys, .heads = model.num_attention_heads, .kv_heads = model.num_key_value_heads, .head_size = model.head_size()};

    norm_forward(c, w.input_norm_D, x_TD, s.n1);
    attention_project(c, w.attention, s.n1.y_lD, s.attention);
    ops::copy(c.backend, s.attention.k.out, cache.k.rows(first, keys));
    ops::copy(c.backend, s.attention.v.out, cache.v.rows(first, keys));
    ops::attention_forward(c.backend, shape, s.attention.q.out, cache.k.rows(0, keys), cache.v.rows(0, keys), {}, s.attention.o_TQ, s.attention.lse_BHS);
    ops::linear_forward(c.backend, s.attention.o_TQ, w.attention.w_o_DQ, s.h_lD);
    ops::add(c.backend, x_TD, s.h_lD, s.h_lD);
    feed_forward_half(lc, w, s, y_TD, {});
  }

  void run_head(View last_1D) {
    const ModelContext& c = runtime_.context;
    runtime_.set_rows(1, 1, 0);
    const NormSaved norm = allocate_norm(c);
    norm_forward(c, weights_.head.final_norm_D, last_1D, norm);
    ops::linear_forward(c.backend, norm.y_lD, weights_.head.w_head_VD, logits_);
  }

  ModelRuntime runtime_;
  View logits_;
  std::vector<Cache> cache_;
  ModelWeights weights_;
};

/// One sequence, nothing recomputed because nothing goes back.
TransformerOptions decoder_options(const TransformerOptions& options, Index max_tokens) {
  TransformerOptions own = options;
  own.micro_batch = 1;
  own.sequence_length = max_tokens;
  own.recompute = {};
  own.has_backward = false;
  return own;
}

Index plan_bytes(const TransformerOptions& options) {
  Arena arena = Arena::measuring();
  const auto backend = make_dry_backend();
  CachedNetwork network(options, *backend, arena, true);
  network.bind(unreal_parameters(options, options.weights));
  const Index rows = std::min(kMaxRows, options.sequence_length);
  network.run({nullptr, DType::kI32, {rows}}, options.sequence_length - rows, true);
  return arena.peak();
}

}  // namespace

struct Decoder::Impl {
  TransformerOptions options;
  Arena arena;
  CachedNetwork network;
  Index length = 0;

  Impl(const TransformerOptions& given, Backend& backend) : options(given), arena(plan_bytes(given)), network(given, backend, arena, false) {}
};

Decoder::Decoder(const TransformerOptions& options, Backend& backend, std::span<const View> weights, Index max_tokens) {
  if (max_tokens < 1) throw ConfigError(fmt::format("[model] a sequence of at most {} tokens; allow at least one", max_tokens));
  const TransformerOptions own = decoder_options(options, max_tokens);
  check_options(own, backend);
  const ModelConfig& model = own.model;
  impl_ = std::make_unique<Impl>(own, backend);
  impl_->network.bind(weights);
  backend.reserve_attention({.batch = 1,
                             .queries = std::min(kMaxRows, max_tokens),
                             .keys = max_tokens,
                             .heads = model.num_attention_heads,
                             .kv_heads = model.num_key_value_heads,
                             .head_size = model.head_size()},
                            own.weights);
}
Decoder::~Decoder() = default;

std::span<const float> Decoder::append(std::span<const std::int32_t> ids) {
  const Index count = static_cast<Index>(ids.size()), longest = impl_->options.sequence_length;
  if (count < 1) throw ShapeError("[model] no token to append to the sequence");
  if (impl_->length + count > longest) {
    throw ConfigError(fmt::format("[model] the sequence would have {} tokens, {} are allowed; shorten the prompt or ask for fewer new tokens",
                                  impl_->length + count, longest));
  }
  check_ids(impl_->options.model, ids, "token id", count);
  for (Index begin = 0; begin < count; begin += kMaxRows) {
    const Index rows = std::min(kMaxRows, count - begin);
    const ConstView ids_T(reinterpret_cast<const std::byte*>(ids.data() + begin), DType::kI32, {rows});
    impl_->network.run(ids_T, impl_->length, begin + rows == count);
    impl_->length += rows;
  }
  return impl_->network.logits();
}

Index Decoder::length() const { return impl_->length; }

}  // namespace optimus
