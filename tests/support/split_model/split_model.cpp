#include "tests/support/split_model.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "optimus/comm/axis_group.hpp"
#include "parts.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {
namespace {

constexpr std::uint64_t kSeed = 17;

Parameters initialized(const TransformerOptions& options) {
  Parameters parameters(options.model, options.weights, options.gradients);
  parameters.initialize(kSeed);
  return parameters;
}

TransformerOptions with_split(TransformerOptions options, const Mesh& mesh, bool sequence_parallel) {
  options.split = model_split(mesh, world().rank());
  options.sequence_parallel = sequence_parallel;
  return options;
}

std::unique_ptr<Communicator> group(const Mesh& mesh, Axis axis) { return mesh.group_size(axis) > 1 ? make_axis_group(world(), mesh, axis) : nullptr; }

Rows share_of(const Rows& all, Index data_ranks, Index data_index) {
  EXPECT_EQ(all.sequences % data_ranks, 0);
  const Index count = all.sequences / data_ranks;
  return all.slice(data_index * count, (data_index + 1) * count);
}

LossScale scale_of_share(LossScale scale, Index data_ranks) {
  scale.aux /= static_cast<double>(data_ranks);
  scale.z /= static_cast<double>(data_ranks);
  return scale;
}

/// Counts that stand for those of a global batch: any do, as long as everybody has the same.
std::vector<std::int64_t> made_up_counts(const TransformerOptions& options) {
  std::vector<std::int64_t> counts;
  if (options.moe.aux_loss_scope != "global_batch") return counts;
  for (Index i = 0; i < options.model.num_hidden_layers * options.model.num_experts; ++i) counts.push_back(3 + i * i % 11);
  return counts;
}
constexpr Index kMadeUpRows = 40;

}  // namespace

SplitModel::SplitModel(TransformerOptions options, const SharedBy& shared_by, std::string_view backend)
    : mesh_(ParallelConfig{.tp = shared_by.tp, .ep = shared_by.ep}, world().size()),
      options_(with_split(std::move(options), mesh_, shared_by.sequence_parallel)),
      specs_(parameter_specs(options_.model)),
      tp_(group(mesh_, Axis::kTp)),
      ep_(group(mesh_, Axis::kEp)),
      backend_(make_backend(backend)),
      parts_(initialized(options_), options_.split, options_.gradients),
      transformer_(options_, *backend_, {.tp = tp_.get(), .ep = ep_.get()}),
      global_counts_(made_up_counts(options_)) {
  transformer_.bind(parts_.weights(), parts_.gradients());
}

Rows SplitModel::own_rows(const Rows& all) const { return share_of(all, mesh_.data_ranks(), mesh_.data_index(world().rank())); }

MicroBatchResult SplitModel::forward_backward(const Rows& all, const LossScale& scale) {
  const Rows own = own_rows(all);
  return transformer_.forward_backward(own.batch(), scale_of_share(scale, mesh_.data_ranks()), {global_counts_, kMadeUpRows});
}

Outcome SplitModel::outcome(const Rows& all, const LossScale& scale) {
  parts_.zero_gradients();
  Outcome outcome{.losses = over_all(forward_backward(all, scale)), .gradients = {}};
  // One sum for all of them: where ranks outnumber cores each collective takes a while.
  std::vector<double> together;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const std::vector<double> own = own_part(i);
    together.insert(together.end(), own.begin(), own.end());
  }
  world().all_reduce({reinterpret_cast<std::byte*>(together.data()), DType::kF64, {static_cast<Index>(together.size())}}, Reduce::kSum);
  auto at = together.begin();
  for (const ParamSpec& spec : specs_) {
    outcome.gradients.emplace_back(at, at + spec.shape.count());
    at += spec.shape.count();
  }
  return outcome;
}

MicroBatchResult SplitModel::over_all(const MicroBatchResult& own) const {
  std::array<double, 4> values = {own.lm_loss_sum, static_cast<double>(own.valid_labels), own.aux_loss, own.z_loss};
  const View sums(reinterpret_cast<std::byte*>(values.data()), DType::kF64, {4});
  if (tp_) {
    const std::array<double, 4> mine = values;
    tp_->broadcast(sums, 0);
    EXPECT_EQ(mine, values) << "a loss differs between the ranks of a TP group";
  }
  if (options_.split.tp_rank != 0) values.fill(0);
  world().all_reduce(sums, Reduce::kSum);
  const auto data_ranks = static_cast<double>(mesh_.data_ranks());
  return {.lm_loss_sum = values[0], .valid_labels = static_cast<Index>(values[1]), .aux_loss = values[2] / data_ranks, .z_loss = values[3] / data_ranks};
}

/// This rank's gradient i at its place in the whole one. Of heads that several ranks hold, the first of them has it.
std::vector<double> SplitModel::own_part(std::size_t i) const {
  const ParamSpec& spec = specs_[i];
  const View& own = parts_.gradients()[i];
  const Index copies = tp_copies(spec, options_.split.tp), owner = options_.split.tp_rank / copies * copies;
  if (copies > 1) {
    std::vector<std::byte> of_all(static_cast<std::size_t>(own.bytes() * options_.split.tp));
    tp_->all_gather(own.reshaped({own.count()}), {of_all.data(), own.dtype(), {own.count() * options_.split.tp}});
    EXPECT_EQ(std::memcmp(own.data(), of_all.data() + owner * own.bytes(), static_cast<std::size_t>(own.bytes())), 0)
        << spec.name << " differs between the ranks that hold the same heads";
  }
  std::vector<double> whole(static_cast<std::size_t>(spec.shape.count()), 0.0);
  if (owner != options_.split.tp_rank) return whole;
  const std::vector<double> part = to_double(own);
  for_each_element(local_box(spec, options_.split), spec.shape,
                   [&](Index from, Index to) { whole[static_cast<std::size_t>(to)] = part[static_cast<std::size_t>(from)]; });
  return whole;
}

Outcome outcome_on_one_rank(const TransformerOptions& options, Index data_ranks, const Rows& all, const LossScale& scale, std::string_view backend) {
  TransformerOptions alone = options;
  alone.split = {};
  alone.sequence_parallel = false;
  const auto device = make_backend(backend);
  const Parameters parameters = initialized(alone);
  Transformer transformer(alone, *device);
  transformer.bind(parameters.weights(), parameters.gradients());
  const std::vector<std::int64_t> counts = made_up_counts(alone);
  Outcome outcome;
  for (Index index = 0; index < data_ranks; ++index) {
    const Rows part = share_of(all, data_ranks, index);
    const auto result = transformer.forward_backward(part.batch(), scale_of_share(scale, data_ranks), {counts, kMadeUpRows});
    outcome.losses.lm_loss_sum += result.lm_loss_sum;
    outcome.losses.valid_labels += result.valid_labels;
    outcome.losses.aux_loss += result.aux_loss / static_cast<double>(data_ranks);
    outcome.losses.z_loss += result.z_loss / static_cast<double>(data_ranks);
  }
  for (std::size_t i = 0; i < parameters.specs().size(); ++i) outcome.gradients.push_back(parameters.gradient(i));
  return outcome;
}

void expect_same(const Outcome& got, const Outcome& want, const std::vector<ParamSpec>& specs, double bound) {
  expect_near("lm_loss", {got.losses.lm_loss_sum}, {want.losses.lm_loss_sum}, bound);
  EXPECT_EQ(got.losses.valid_labels, want.losses.valid_labels);
  expect_near("aux_loss", {got.losses.aux_loss}, {want.losses.aux_loss}, bound);
  expect_near("z_loss", {got.losses.z_loss}, {want.losses.z_loss}, bound);
  for (std::size_t i = 0; i < specs.size(); ++i) expect_near(specs[i].name, got.gradients[i], want.gradients[i], bound);
}

void expect_as_on_one_rank(const TransformerOptions& options, const SharedBy& shared_by, const Rows& all, const LossScale& scale, std::string_view backend,
                           double bound) {
  SplitModel shared(options, shared_by, backend);
  expect_same(shared.outcome(all, scale), outcome_on_one_rank(options, shared.mesh().data_ranks(), all, scale, backend), shared.specs(), bound);
}

}  // namespace optimus::test
