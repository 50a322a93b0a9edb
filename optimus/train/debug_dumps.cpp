#include "optimus/train/debug_dumps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "optimus/base/file.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/comm/placement.hpp"

namespace optimus {
namespace {

std::filesystem::path debug_file(const std::filesystem::path& run_dir, const char* what, Index step) {
  make_folders(run_dir / "debug");
  return run_dir / "debug" / fmt::format("{}-step-{}.safetensors", what, step);
}

/// Row-major elements of `view` from `begin` on, as f32 in `out`.
void copy_as_f32(ConstView view, Index begin, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Index at = begin + static_cast<Index>(i);
    out[i] = view.dtype() == DType::kF32 ? view.as<float>()[at] : static_cast<float>(view.as<BFloat16>()[at]);
  }
}

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

}  // namespace

void dump_gradients(Communicator& world, TrainStep& train_step, const std::filesystem::path& run_dir, Index step) {
  train_step.optimizer().gather_gradients();
  agree(world, [&] {
    if (world.rank() != 0) return;
    const auto& specs = train_step.specs();
    std::vector<SafetensorsEntry> entries;
    std::vector<std::pair<std::size_t, Index>> sources;  // of each entry: parameter and entry of it
    for (std::size_t s = 0; s < specs.size(); ++s) {
      Shape shape = specs[s].shape;
      if (specs[s].is_stacked()) {
        shape = Shape();
        for (int d = 1; d < specs[s].shape.ndim(); ++d) shape.push_back(specs[s].shape[d]);
      }
      for (Index i = 0; i < (specs[s].is_stacked() ? specs[s].shape[0] : 1); ++i) {
        entries.push_back({.name = specs[s].tensor_name(i), .dtype = DType::kF32, .shape = shape});
        sources.emplace_back(s, i);
      }
    }
    SafetensorsWriter writer(debug_file(run_dir, "gradients", step), entries, {{"step", std::to_string(step)}});
    for (std::size_t e = 0; e < entries.size(); ++e) {
      std::vector<float> values(static_cast<std::size_t>(entries[e].shape.count()));
      copy_as_f32(train_step.optimizer().gradients()[sources[e].first], sources[e].second * entries[e].shape.count(), values);
      writer.write(bytes_of(values));
    }
    writer.commit();
  });
}

void dump_logits(Communicator& world, TrainStep& train_step, const Batch& batch, const RunConfig& config, Index step) {
  const Index V = config.shape.vocab_size, S = batch.sequence_length(), rows = batch.rows();
  std::vector<float> logits(static_cast<std::size_t>(rows * S * V));
  for (Index row = 0; row < rows; row += config.batch.micro_batch) {
    const auto sink = [&](Index first_row, ConstView logits_TV) {
      copy_as_f32(logits_TV, 0, std::span(logits).subspan(static_cast<std::size_t>((row * S + first_row) * V), static_cast<std::size_t>(logits_TV.count())));
    };
    (void)train_step.transformer().forward(batch.rows(row, std::min(row + config.batch.micro_batch, rows)), sink);
  }
  std::vector<std::int32_t> ids(batch.ids().begin(), batch.ids().end());
  const auto view = [](auto& values) {
    return View(reinterpret_cast<std::byte*>(values.data()), dtype_of<std::decay_t<decltype(values[0])>>, {static_cast<Index>(values.size())});
  };
  constexpr int kLogitsTag = 1, kIdsTag = 2;
  if (world.rank() > 0) {
    world.send(view(logits), 0, kLogitsTag);
    return world.send(view(ids), 0, kIdsTag);
  }
  // Ranks have consecutive rows and are taken in order, so the file is written front to back with one rank's logits in memory at a time.
  const Index all_rows = rows * world.size();
  std::vector<std::int32_t> all_ids;
  SafetensorsWriter writer(
      debug_file(config.run.dir, "logits", step),
      {{.name = "logits", .dtype = DType::kF32, .shape = {all_rows, S, V}}, {.name = "tokens", .dtype = DType::kI32, .shape = {all_rows, S + 1}}},
      {{"step", std::to_string(step)}});
  for (Index rank = 0; rank < world.size(); ++rank) {
    if (rank > 0) {
      world.receive(view(logits), rank, kLogitsTag);
      world.receive(view(ids), rank, kIdsTag);
    }
    writer.write(bytes_of(logits));
    all_ids.insert(all_ids.end(), ids.begin(), ids.end());
  }
  writer.write(bytes_of(all_ids));
  writer.commit();
}

void check_replicas(Communicator& world, TrainStep& train_step, const Mesh& mesh) {
  const auto& specs = train_step.specs();
  const auto weights = train_step.optimizer().weights();
  std::vector<std::int64_t> mine(specs.size()), all(specs.size() * static_cast<std::size_t>(world.size()));
  for (std::size_t s = 0; s < specs.size(); ++s)
    mine[s] = static_cast<std::int64_t>(xxh64(std::span<const std::byte>(weights[s].data(), static_cast<std::size_t>(weights[s].bytes()))));
  const auto view = [](std::vector<std::int64_t>& values) {
    return View(reinterpret_cast<std::byte*>(values.data()), DType::kI64, {static_cast<Index>(values.size())});
  };
  world.all_gather(view(mine), view(all));
  std::string differences;
  for (std::size_t s = 0; s < specs.size(); ++s) {
    for (Index rank = 0; rank < world.size(); ++rank) {
      const Index first = mesh.member_rank(rank, replica_axis(specs[s]), 0);
      if (all[static_cast<std::size_t>(rank) * specs.size() + s] != all[static_cast<std::size_t>(first) * specs.size() + s])
        differences += fmt::format("\n  {}: rank {} differs from rank {}", specs[s].name, rank, first);
    }
  }
  if (!differences.empty()) throw Error("[debug] copies of parameters are not equal:" + differences);
}

}  // namespace optimus
