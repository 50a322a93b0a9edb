#include "optimus/train/debug_dumps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "optimus/base/file.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/comm/placement.hpp"
#include "optimus/train/gather_tensors.hpp"

namespace optimus {
namespace {

constexpr std::string_view kGradientPrefix = "grad.";

std::filesystem::path debug_file(const std::filesystem::path& run_dir, const char* what, Index step) {
  make_folders(run_dir / "debug");
  return run_dir / "debug" / fmt::format("{}-step-{}.safetensors", what, step);
}

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

View view_of(auto& values) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype_of<std::decay_t<decltype(values[0])>>, {static_cast<Index>(values.size())}};
}

/// The shape of one entry of a stacked parameter.
Shape entry_shape(const ParamSpec& spec) {
  if (!spec.is_stacked()) return spec.shape;
  Shape shape;
  for (int d = 1; d < spec.shape.ndim(); ++d) shape.push_back(spec.shape[d]);
  return shape;
}

/// Logits of this rank's rows and its part of the vocabulary, [rows, S, part]; empty where the head does not stand.
std::vector<float> local_logits(TrainStep& train_step, const Batch& batch, const RunConfig& config, Index part) {
  const Index S = batch.sequence_length(), size = config.batch.micro_batch;
  std::vector<float> logits;
  const auto sink = [&](Index micro_batch, Index first_row, ConstView logits_TV) {
    logits.resize(static_cast<std::size_t>(batch.rows() * S * part));
    const auto first = static_cast<std::size_t>((micro_batch * size * S + first_row) * part);
    copy_as_f32(logits_TV, 0, std::span(logits).subspan(first, static_cast<std::size_t>(logits_TV.count())));
  };
  (void)train_step.model().forward(batch.micro_batches(size), batch.rows() / size, sink);
  return logits;
}

/// Columns [range) of rows of V.
void set_columns(std::vector<float>& rows, Index V, const IndexRange& range, const std::vector<float>& part) {
  for (std::size_t row = 0; row < rows.size() / static_cast<std::size_t>(V); ++row) {
    std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(row) * range.count, range.count, rows.begin() + static_cast<std::ptrdiff_t>(row) * V + range.begin);
  }
}

}  // namespace

void dump_gradients(Communicator& world, TrainStep& train_step, const RunConfig& config, Index step) {
  const auto tensors = gather_tensors(world, train_step.optimizer().gradient_chunks());
  agree(world, [&] {
    if (world.rank() != 0) return;
    const auto specs = parameter_specs(config.shape);
    std::vector<SafetensorsEntry> entries;
    for (const ParamSpec& spec : specs) {
      for (Index i = 0; i < (spec.is_stacked() ? spec.shape[0] : 1); ++i)
        entries.push_back({.name = spec.tensor_name(i), .dtype = DType::kF32, .shape = entry_shape(spec)});
    }
    SafetensorsWriter writer(debug_file(config.run.dir, "gradients", step), entries, {{"step", std::to_string(step)}});
    for (const ParamSpec& spec : specs) {
      const std::span<const float> all = tensors.at(std::string(kGradientPrefix) + spec.name);
      const std::size_t entry = static_cast<std::size_t>(entry_shape(spec).count());
      for (std::size_t begin = 0; begin < all.size(); begin += entry) writer.write(bytes_of(all.subspan(begin, entry)));
    }
    writer.commit();
  });
}

void dump_logits(Communicator& world, const Mesh& mesh, TrainStep& train_step, const Batch& batch, const RunConfig& config, Index step) {
  const Index V = config.shape.vocab_size, S = batch.sequence_length(), rows = batch.rows();
  const auto vocabulary = [&](Index tp_rank) { return uneven_part(V, mesh.tp(), tp_rank); };
  const Coordinates at = mesh.coordinates(world.rank());
  std::vector<float> part = local_logits(train_step, batch, config, vocabulary(at.tp).count);
  std::vector<std::int32_t> ids(batch.ids().begin(), batch.ids().end());
  constexpr int kLogitsTag = 1, kIdsTag = 2;
  if (at.pp == mesh.pp() - 1 && world.rank() > 0) {
    world.send(view_of(part), 0, kLogitsTag);
    if (at.tp == 0) world.send(view_of(ids), 0, kIdsTag);
  }
  if (world.rank() > 0) return;
  // Data ranks have consecutive rows and are taken in order, so the file is written front to back with the logits of one of them in memory at a time.
  const Index all_rows = rows * mesh.data_ranks();
  std::vector<std::int32_t> all_ids;
  std::vector<float> logits(static_cast<std::size_t>(rows * S * V)), received;
  SafetensorsWriter writer(
      debug_file(config.run.dir, "logits", step),
      {{.name = "logits", .dtype = DType::kF32, .shape = {all_rows, S, V}}, {.name = "tokens", .dtype = DType::kI32, .shape = {all_rows, S + 1}}},
      {{"step", std::to_string(step)}});
  for (Index data = 0; data < mesh.data_ranks(); ++data) {
    for (Index tp = 0; tp < mesh.tp(); ++tp) {
      const Index rank = mesh.rank_of({.dp = data / mesh.ep(), .pp = mesh.pp() - 1, .ep = data % mesh.ep(), .tp = tp});
      if (rank == 0) {
        received = part;
      } else {
        received.resize(static_cast<std::size_t>(rows * S * vocabulary(tp).count));
        world.receive(view_of(received), rank, kLogitsTag);
        if (tp == 0) world.receive(view_of(ids), rank, kIdsTag);
      }
      set_columns(logits, V, vocabulary(tp), received);
    }
    writer.write(bytes_of(logits));
    all_ids.insert(all_ids.end(), ids.begin(), ids.end());
  }
  writer.write(bytes_of(all_ids));
  writer.commit();
}

void check_replicas(Communicator& world, const Mesh& mesh, TrainStep& train_step) {
  train_step.optimizer().wait_weights();
  const auto weights = train_step.optimizer().weights();
  nlohmann::json mine = nlohmann::json::object();
  for (std::size_t s = 0; s < weights.size(); ++s) {
    const ParamSpec& spec = train_step.specs()[s];
    const std::string part = spec.name + " " + local_box(spec, mesh, world.rank()).begin.str();
    mine[part] = hex64(xxh64(std::span<const std::byte>(weights[s].data(), static_cast<std::size_t>(weights[s].bytes()))));
  }
  struct First {
    std::size_t rank;
    std::string hash;
  };
  std::map<std::string, First> firsts;
  std::string differences;
  const std::vector<std::string> all = all_gather_text(world, mine.dump());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto parts = nlohmann::json::parse(all[rank]);
    for (const auto& [part, hash] : parts.items()) {
      const auto [first, is_first] = firsts.try_emplace(part, First{rank, hash.get<std::string>()});
      if (!is_first && first->second.hash != hash.get<std::string>())
        differences += fmt::format("\n  {}: rank {} differs from rank {}", part.substr(0, part.find(' ')), rank, first->second.rank);
    }
  }
  if (!differences.empty()) throw Error("[debug] copies of parameters are not equal:" + differences);
}

}  // namespace optimus
