#include "optimus/model/plan.hpp"

#include <fmt/format.h>

#include <limits>

#include "optimus/backend/dry/dry_backend.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/comm/dry/dry.hpp"
#include "optimus/model/network.hpp"

namespace optimus {
namespace {

/// Stands for the ranks of a group while memory is planned.
std::unique_ptr<Communicator> dry_group(Index size, Index rank, const char* name) { return size > 1 ? make_dry_communicator(size, rank, name) : nullptr; }

}  // namespace

std::vector<View> unreal_parameters(const TransformerOptions& options, DType dtype) {
  Arena arena = Arena::measuring();
  std::vector<View> views;
  for (const ParamSpec& spec : parameter_specs(options.model, options.layer_range())) views.push_back(arena.alloc(dtype, local_box(spec, options.split).shape));
  return views;
}

void check_options(const TransformerOptions& options, const Backend& backend) {
  if (options.sequence_length > options.model.max_position_embeddings) {
    throw ConfigError(
        fmt::format("[model] sequences of {} tokens are longer than max_position_embeddings = {}; shorten them or raise model.max_position_embeddings",
                    options.sequence_length, options.model.max_position_embeddings));
  }
  // Lists of rows and slots are 32-bit.
  const Index rows = checked_mul(options.micro_batch, options.sequence_length), choices = options.model.is_moe ? options.model.num_experts_per_tok : 1;
  if (checked_mul(rows, choices) > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(fmt::format("[model] a micro-batch of {} of {} with {} each has too many rows for one rank; make the micro-batch smaller",
                                  counted(options.micro_batch, "sequence"), counted(options.sequence_length, "token"), counted(choices, "choice")));
  }
  if (options.sequence_parallel && rows % options.split.tp != 0) {
    throw ConfigError(
        fmt::format("[model] sequence parallelism shares rows out over tp = {} ranks, and {} of {} do not divide by that; change the sequence length",
                    options.split.tp, counted(options.micro_batch, "sequence"), counted(options.sequence_length, "token")));
  }
  if (!backend.supports(options.weights))
    throw UnsupportedError(fmt::format("[model] {} does not compute on {}", backend.description(), dtype_name(options.weights)));
}

ActivationPlan plan_activations(const TransformerOptions& options) {
  Arena temporaries = Arena::measuring(), kept = Arena::measuring();
  const auto backend = make_dry_backend();
  const auto tp = dry_group(options.split.tp, options.split.tp_rank, "tp"), ep = dry_group(options.split.ep, options.split.ep_rank, "ep");
  Network network(options, *backend, {.tp = tp.get(), .ep = ep.get()}, {temporaries, std::span(&kept, 1)}, true);
  const MicroBatch largest{.sequences = options.micro_batch, .sequence_length = options.sequence_length, .inputs = {}, .labels = {}};
  const StageRows neighbour = stage_rows(options);
  const LayerRange layers = options.layer_range();
  const StageRows before = layers.has_embedding ? StageRows{} : neighbour, after = layers.has_head ? StageRows{} : neighbour;
  const auto weights = unreal_parameters(options, options.weights);
  if (options.has_backward) {
    network.bind(weights, unreal_parameters(options, options.gradients));
    network.forward(0, largest, {}, before, after);
    if (options.splits_backward) {
      (void)network.backward_input(0, largest, {}, {}, after, before);
      network.backward_weight(0);
    } else {
      (void)network.backward(0, largest, {}, {}, after, before);
    }
  } else {
    network.bind(weights, {});
    (void)network.forward_only(largest, before, after, {});
  }
  const WorkCount work = backend->work();
  if (options.has_backward) (void)network.forward_only(largest, before, after, {});  // validation needs memory too
  // What one slot takes, rounded up so that every slot begins at a cache line.
  const Index slot = round_up(kept.peak(), 64);
  return {.bytes = checked_add(temporaries.peak(), checked_mul(slot, options.slots)),
          .temporary_bytes = temporaries.peak(),
          .gemm_flops = work.gemm_flops,
          .attention_flops = work.attention_flops};
}

}  // namespace optimus
