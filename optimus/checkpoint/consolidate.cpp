// One file with whole tensors, whatever the layout was that wrote them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/fill.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/tensor/arena.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {
namespace {

// A stored tensor, or entry `index` of a stacked one.
struct Part {
  const StoredTensor* tensor;
  std::string name;
  Shape shape;
  Box box;
};

void add_parts(const StoredTensor& tensor, std::vector<Part>& parts) {
  const ParamSpec spec{.name = tensor.name, .shape = tensor.shape};
  if (!spec.is_stacked()) {
    parts.push_back({&tensor, tensor.name, tensor.shape, Box::whole(tensor.shape)});
    return;
  }
  Shape entry;
  for (int d = 1; d < tensor.shape.ndim(); ++d) entry.push_back(tensor.shape[d]);
  for (Index i = 0; i < tensor.shape[0]; ++i) {
    Box box = Box::whole(tensor.shape);
    box.begin.set(0, i);
    box.shape.set(0, 1);
    parts.push_back({&tensor, spec.tensor_name(i), entry, box});
  }
}

// f32 states before the weights, which may be narrower: all tensors are then aligned. Inside a group by name.
std::vector<Part> list_parts(const Manifest& manifest) {
  constexpr std::array<std::string_view, 4> kGroups{"exp_avg.", "exp_avg_sq.", "master.", "model."};
  std::vector<Part> parts;
  for (const std::string_view group : kGroups) {
    for (const StoredTensor& tensor : manifest.tensors) {
      if (tensor.name.starts_with(group)) add_parts(tensor, parts);
    }
  }
  return parts;
}

}  // namespace

void consolidate_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& out) {
  // A file more would make the checkpoint it lies in unreadable, one of its names would replace a part of it.
  if (std::filesystem::exists(out.parent_path() / kManifestName))
    throw FileError(fmt::format("[checkpoint] {} would lie in a checkpoint; choose another place", out.string()));
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {} is not whole", folder.string()), verify_checkpoint(folder));
  CheckpointReader reader(read_manifest(folder));
  const std::vector<Part> parts = list_parts(reader.manifest());
  std::vector<SafetensorsEntry> entries;
  Index largest = 0;
  for (const Part& part : parts) {
    entries.push_back({.name = part.name, .dtype = part.tensor->dtype, .shape = part.shape});
    largest = std::max(largest, part.shape.count() * dtype_bytes(part.tensor->dtype));
  }
  const TrainingPosition& position = reader.manifest().info.position;
  SafetensorsWriter writer(out, entries,
                           {{"step", std::to_string(position.step)},
                            {"tokens", std::to_string(position.tokens)},
                            {"next_sample", std::to_string(position.next_sample)},
                            {"epoch", std::to_string(position.epoch)},
                            {"adam_step", std::to_string(position.adam_step)}});
  const Buffer buffer(largest);
  for (const Part& part : parts) {
    const View data(buffer.data(), part.tensor->dtype, {part.shape.count()});
    reader.fill({.name = part.tensor->name, .global_shape = part.tensor->shape, .box = part.box, .flat_begin = 0, .data = data});
    writer.write(data);
  }
  writer.commit();
}

}  // namespace optimus
