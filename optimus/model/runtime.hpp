#pragma once
// The objects that a computation over one model shares, set up once: contexts of the blocks, experts, dispatcher, rotary tables.

#include <memory>

#include "optimus/model/layer.hpp"

namespace optimus {

/// Where a computation puts what it makes; both may be one arena.
struct RuntimeMemory {
  Arena& temporaries;
  Arena& kept;
};

/// Lives as long as the computation; its contexts point into it.
struct ModelRuntime {
  /// Collective: over groups.tp.
  /// Lays tables and positions of up to micro_batch * sequence_length rows into `kept`, for good.
  ModelRuntime(const TransformerOptions& given, Backend& backend, const ModelGroups& groups, const RuntimeMemory& memory, bool is_planning);
  ModelRuntime(const ModelRuntime&) = delete;
  ModelRuntime& operator=(const ModelRuntime&) = delete;

  /// What backward needs lies in `arena` from here on.
  void keep_in(Arena& arena);
  /// Weight gradients go to `list` from here on; nullptr: they are made at once.
  void defer_to(WeightProducts* list);
  /// Told of every poll() of the blocks from here on; must outlive this. nullptr: nobody.
  void set_poll(const std::function<void()>* on_poll);
  /// Rows of the next computation: positions first, first + 1, … of each sequence.
  void set_rows(Index sequences, Index sequence_length, Index first_position);
  [[nodiscard]] LayerContext layer_context() const { return {context, options.model.is_moe ? &moe_context : nullptr, experts.get()}; }

  TransformerOptions options;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<Experts> experts;
  std::unique_ptr<Communicator> kv_sharers;
  ModelContext context;
  MoeContext moe_context;

 private:
  View positions_;
};

/// Errors: DataError naming the first id outside the vocabulary and its place; `what` is "token id" or "label".
void check_ids(const ModelConfig& model, std::span<const std::int32_t> ids, std::string_view what, Index sequence_length);

}  // namespace optimus
