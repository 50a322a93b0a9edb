#include "tests/invariance/layouts/training.hpp"

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/random.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/train/debug_dumps.hpp"
#include "optimus/train/gather_tensors.hpp"
#include "optimus/train/train_step.hpp"

namespace optimus::test {
namespace {

/// Rows [begin, begin + rows) of a step's global batch.
std::vector<std::int32_t> made_up_rows(const RunConfig& config, Ids kind, Index step, Index begin, Index rows) {
  const Index width = config.data.sequence_length + 1;
  const bool is_same = kind == Ids::kSameSequenceAlways;
  const RandomStream stream(11, "rows", is_same ? "" : std::to_string(step));
  std::vector<std::int32_t> ids;
  for (Index i = begin * width; i < (begin + rows) * width; ++i)
    ids.push_back(static_cast<std::int32_t>(stream.below(is_same ? i % width : i, static_cast<std::uint64_t>(config.shape.vocab_size))));
  return ids;
}

}  // namespace

Outcome train(Communicator& world, const std::string& text, const std::vector<std::string>& settings, Index steps, Ids ids) {
  const RunConfig config = load_run_config_text(text, {.ranks = world.size(), .needs_data = false}, settings);
  const auto backend = make_cpu_backend(1);
  const Mesh mesh(config.parallel, world.size());
  RankGroups groups(world, mesh, config.parallel.two_level);
  TrainStep step(config, mesh, groups, *backend);
  step.optimizer().initialize([&](const ParamSpec& spec, const Box& box, Index begin, View out) { initialize(spec, box, begin, 5, out); });
  Outcome outcome{.initial = gather_tensors(world, step.optimizer().owned_model_chunks())};

  const Index rows = config.batch.global_batch / mesh.data_ranks();
  Batch batch(rows, config.data.sequence_length, -1);
  for (Index i = 0; i < steps; ++i) {
    batch.set(made_up_rows(config, ids, i, mesh.data_index(world.rank()) * rows, rows));
    StepHooks hooks;
    if (i == 0) hooks.after_reduce = [&] { outcome.gradients = gather_tensors(world, step.optimizer().gradient_chunks()); };
    PhaseSeconds ignored{};
    const StepOutcome result = step.run(batch, {.lr = config.optimizer.lr}, hooks, ignored);
    outcome.lm_loss.push_back(result.lm_loss);
    outcome.aux_loss.push_back(result.aux_loss);
    outcome.z_loss.push_back(result.z_loss);
    outcome.grad_norm.push_back(result.update.grad_norm);
    outcome.expert_counts.resize(step.expert_counts().size());
    for (std::size_t e = 0; e < outcome.expert_counts.size(); ++e) outcome.expert_counts[e] += step.expert_counts()[e];
    check_replicas(world, mesh, step);
  }
  outcome.weights = gather_tensors(world, step.optimizer().owned_model_chunks());
  return outcome;
}

}  // namespace optimus::test
