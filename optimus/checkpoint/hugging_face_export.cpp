// Writing Hugging Face folders.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/elements.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/checkpoint/hugging_face_names.hpp"
#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {
namespace {

constexpr Index kHeaderBytesPerTensor = 256;  // more than an entry of the header takes

struct Tensor {
  const ParamSpec* spec;
  Index entry;
};
using Part = std::vector<Tensor>;

Index tensor_bytes(const Tensor& tensor, DType dtype) { return entry_shape(*tensor.spec).count() * dtype_bytes(dtype); }

std::vector<Part> plan_parts(const std::vector<ParamSpec>& specs, DType dtype, Index max_part_bytes) {
  std::vector<Part> parts(1);
  Index bytes = 0;
  for (const ParamSpec& spec : specs) {
    for (Index entry = 0; entry < num_entries(spec); ++entry) {
      const Tensor tensor{&spec, entry};
      const Index more = tensor_bytes(tensor, dtype) + kHeaderBytesPerTensor;
      if (bytes + more > max_part_bytes && !parts.back().empty()) {
        parts.emplace_back();
        bytes = 0;
      }
      parts.back().push_back(tensor);
      bytes += more;
    }
  }
  return parts;
}

std::string part_name(std::size_t index, std::size_t count) {
  return count == 1 ? kSingleFile : fmt::format("model-{:05d}-of-{:05d}.safetensors", index + 1, count);
}

SafetensorsWriter write_part(const std::filesystem::path& path, const Part& part, DType dtype, const TensorSource& source) {
  std::vector<SafetensorsEntry> entries;
  Index largest = 0;
  for (const Tensor& tensor : part) {
    entries.push_back({.name = tensor.spec->tensor_name(tensor.entry), .dtype = dtype, .shape = entry_shape(*tensor.spec)});
    largest = std::max(largest, entries.back().shape.count());
  }
  SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  const Buffer values(largest * dtype_bytes(DType::kF32)), rounded(largest * dtype_bytes(dtype));
  for (const Tensor& tensor : part) {
    const Shape shape = entry_shape(*tensor.spec);
    const View value(values.data(), DType::kF32, shape);
    source(*tensor.spec, tensor.entry, value);
    const View out(rounded.data(), dtype, shape);
    round_elements(value, out);
    writer.write(ConstView(out));
  }
  return writer;
}

std::string index_text(const std::vector<Part>& parts, DType dtype) {
  Index total = 0;
  nlohmann::json map;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const Tensor& tensor : parts[i]) {
      map[tensor.spec->tensor_name(tensor.entry)] = part_name(i, parts.size());
      total += tensor_bytes(tensor, dtype);
    }
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

void remove_file(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::remove(path, code);
  if (code) throw FileError(fmt::format("[hugging face] cannot remove {}: {}", path.string(), code.message()));
}

// Files of an earlier export that the new one does not overwrite. The loader would take the wrong ones.
void remove_stale(const std::filesystem::path& folder, std::size_t num_parts) {
  std::vector<std::filesystem::path> stale;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = name.starts_with("model-") && name.ends_with(".safetensors");
    const bool is_weights = name == kSingleFile || name == kIndexFile || is_part;
    const bool is_new = num_parts == 1 ? name == kSingleFile : name.ends_with(fmt::format("-of-{:05d}.safetensors", num_parts));
    if (is_weights && !is_new) stale.push_back(entry.path());
  }
  for (const auto& path : stale) remove_file(path);
}

}  // namespace

void write_hf_folder(const std::filesystem::path& folder, const std::string& config_json, const std::vector<ParamSpec>& specs, DType dtype,
                     const TensorSource& source, Index max_part_bytes) {
  // Weights beside a checkpoint's would make it unreadable.
  for (const std::string_view other : {std::string_view(kManifestName), std::string_view("checkpoints")}) {
    if (std::filesystem::exists(folder / other))
      throw FileError(fmt::format("[hugging face] {} holds a checkpoint or a run (it has {}); choose another folder", folder.string(), other));
  }
  make_folders(folder);
  const std::vector<Part> parts = plan_parts(specs, dtype, max_part_bytes);
  // Nothing gets its name before all of it is written: a full disk leaves what was there.
  std::vector<SafetensorsWriter> writers;
  writers.reserve(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) writers.push_back(write_part(folder / part_name(i, parts.size()), parts[i], dtype, source));
  // Without its index or single file an old export cannot be loaded half replaced.
  remove_stale(folder, parts.size());
  write_file_atomically(folder / "config.json", config_json);
  for (SafetensorsWriter& writer : writers) writer.commit();
  if (parts.size() > 1) write_file_atomically(folder / kIndexFile, index_text(parts, dtype));
}

}  // namespace optimus
