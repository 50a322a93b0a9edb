#include "optimus/checkpoint/hugging_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "optimus/base/check.hpp"
#include "optimus/base/file.hpp"
#include "optimus/checkpoint/elements.hpp"
#include "optimus/checkpoint/fill.hpp"
#include "optimus/checkpoint/hugging_face_names.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/safetensors.hpp"
#include "optimus/tensor/nonfinite.hpp"

namespace optimus {
namespace {

using Json = nlohmann::json;

// Where a tensor is.
struct Place {
  std::size_t part;
  const SafetensorsEntry* entry;
};

struct Expected {
  Shape shape;
  bool is_needed = true;
};

// Everything a folder of this model has to hold, by name.
std::map<std::string, Expected> expected_tensors(const std::vector<ParamSpec>& specs, bool tied_head) {
  std::map<std::string, Expected> expected;
  for (const ParamSpec& spec : specs) {
    for (Index entry = 0; entry < num_entries(spec); ++entry) expected[spec.tensor_name(entry)] = {entry_shape(spec)};
  }
  const auto embedding = expected.find(kEmbeddingName);
  if (tied_head && embedding != expected.end()) expected.try_emplace(kHeadName, Expected{embedding->second.shape, false});
  return expected;
}

// File of each tensor as the index says. Problems are added.
std::map<std::string, std::string> read_index(const std::filesystem::path& path, std::vector<std::string>& problems) {
  std::map<std::string, std::string> files;
  try {
    const Json index = Json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
    if (index.is_discarded() || !index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      problems.push_back(fmt::format("{}: not an index (no JSON object with a weight_map)", path.string()));
      return files;
    }
    for (const auto& [name, file] : index["weight_map"].items()) {
      const bool is_plain =
          file.is_string() && !file.get<std::string>().empty() && std::filesystem::path(file.get<std::string>()).filename() == file.get<std::string>();
      if (is_plain) files[name] = file.get<std::string>();
      else problems.push_back(fmt::format("{}: {} is said to be in {}, which is not a file of this folder", path.string(), name, file.dump()));
    }
  } catch (const FileError& error) {
    problems.emplace_back(error.what());
  }
  return files;
}

// Whether two tensors of one shape hold the same values, compared a block at a time.
bool is_same(const SafetensorsFile& file_a, const SafetensorsEntry& a, const SafetensorsFile& file_b, const SafetensorsEntry& b) {
  const Index count = a.shape.count();
  std::vector<float> block_a(static_cast<std::size_t>(std::min(count, kIoBlockBytes / 4))), block_b = block_a;
  for (Index begin = 0; begin < count; begin += static_cast<Index>(block_a.size())) {
    const Index end = std::min(count, begin + static_cast<Index>(block_a.size()));
    const auto read = [&](const SafetensorsFile& file, const SafetensorsEntry& entry, std::vector<float>& block) {
      const View out(reinterpret_cast<std::byte*>(block.data()), DType::kF32, {end - begin});
      read_shared(file.file(), file.header_bytes() + entry.begin, entry.dtype, {Box::whole({count}), 0, count}, {Box::whole({count}), begin, end}, out);
    };
    read(file_a, a, block_a);
    read(file_b, b, block_b);
    if (!std::equal(block_a.begin(), block_a.begin() + (end - begin), block_b.begin())) return false;
  }
  return true;
}

}  // namespace

struct HfWeights::Impl {
  std::filesystem::path folder;
  std::vector<SafetensorsFile> parts;
  std::map<std::string, Place> places;
  std::vector<std::string> problems;

  void open_part(const std::string& name, const std::map<std::string, std::string>* index) {
    try {
      parts.emplace_back(folder / name);
    } catch (const CheckpointError& error) {
      problems.emplace_back(error.what());
      return;
    }
    for (const SafetensorsEntry& entry : parts.back().entries()) {
      // A tensor that the index puts elsewhere is nobody's: loading it would depend on the order of the parts.
      if (index != nullptr && (!index->contains(entry.name) || index->at(entry.name) != name)) {
        problems.push_back(fmt::format("tensor {} is in {}, but the index does not say so", entry.name, name));
      } else {
        places[entry.name] = {parts.size() - 1, &entry};
      }
    }
  }

  void open() {
    std::error_code code;
    if (std::filesystem::exists(folder / kSingleFile, code)) {
      open_part(kSingleFile, nullptr);
      return;
    }
    if (!std::filesystem::exists(folder / kIndexFile, code)) {
      const bool has_other =
          std::filesystem::exists(folder / "pytorch_model.bin", code) || std::filesystem::exists(folder / "pytorch_model.bin.index.json", code);
      problems.push_back(fmt::format("{} has neither {} nor {}{}", folder.string(), kSingleFile, kIndexFile,
                                     has_other ? "; pytorch_model.bin is not read, save the model as safetensors" : ""));
      return;
    }
    const auto index = read_index(folder / kIndexFile, problems);
    std::set<std::string> names;
    for (const auto& [tensor, file] : index) names.insert(file);
    parts.reserve(names.size());
    for (const std::string& name : names) open_part(name, &index);
    for (const auto& [tensor, file] : index) {
      const bool is_open = std::any_of(parts.begin(), parts.end(), [&](const SafetensorsFile& part) { return part.file().path().filename() == file; });
      if (is_open && !places.contains(tensor)) problems.push_back(fmt::format("tensor {} is not in {}, where the index puts it", tensor, file));
    }
  }

  void check(const std::map<std::string, Expected>& expected, bool all_parts_open) {
    for (const auto& [name, want] : expected) {
      const auto at = places.find(name);
      if (at == places.end()) {
        // What an unreadable part may hold is not missing for certain.
        if (want.is_needed && all_parts_open) problems.push_back(fmt::format("tensor {} is missing", name));
        continue;
      }
      const SafetensorsEntry& entry = *at->second.entry;
      if (!(entry.shape == want.shape))
        problems.push_back(fmt::format("tensor {} has shape {}, the model needs {}", name, entry.shape.str(), want.shape.str()));
      if (!is_convertible(entry.dtype, DType::kF32))
        problems.push_back(fmt::format("tensor {} is {}; bf16, f16 and f32 are read", name, dtype_name(entry.dtype)));
    }
    for (const auto& [name, place] : places) {
      if (!expected.contains(name)) problems.push_back(fmt::format("tensor {} is unknown to the model", name));
    }
  }

  void check_tied_head() {
    const auto head = places.find(kHeadName), embedding = places.find(kEmbeddingName);
    if (head == places.end() || embedding == places.end()) return;
    if (!is_same(parts[head->second.part], *head->second.entry, parts[embedding->second.part], *embedding->second.entry)) {
      problems.push_back(fmt::format("{} differs from {}, although the config ties them; set tie_word_embeddings to false", kHeadName, kEmbeddingName));
    }
  }
};

HfWeights::HfWeights(const std::filesystem::path& folder, const std::vector<ParamSpec>& specs, bool tied_head)
    : impl_(new Impl{.folder = folder, .parts = {}, .places = {}, .problems = {}}) {
  const std::string title = fmt::format("[hugging face] the weights in {} do not fit", folder.string());
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) throw CheckpointError(fmt::format("[hugging face] {} is not a folder", folder.string()));
  impl_->open();
  impl_->check(expected_tensors(specs, tied_head), impl_->problems.empty());
  throw_if_problems<CheckpointError>(title, impl_->problems);
  if (tied_head) impl_->check_tied_head();
  throw_if_problems<CheckpointError>(title, impl_->problems);
}

HfWeights::~HfWeights() = default;
HfWeights::HfWeights(HfWeights&&) noexcept = default;

DType HfWeights::exact_dtype() const {
  const bool is_bf16 = std::all_of(impl_->places.begin(), impl_->places.end(), [](const auto& item) { return item.second.entry->dtype == DType::kBF16; });
  return is_bf16 ? DType::kBF16 : DType::kF32;
}

void HfWeights::read(const ParamSpec& spec, const Box& box, Index flat_begin, View out) const {
  OPTIMUS_CHECK(out.dtype() == DType::kF32, "Hugging Face weights are read as f32");
  const Region wanted{box, flat_begin, flat_begin + out.count()};
  for (Index i = 0; i < num_entries(spec); ++i) {
    const Box part = entry_box(spec, i);
    if (!intersect(part, box)) continue;
    const Place& place = impl_->places.at(spec.tensor_name(i));
    const SafetensorsFile& file = impl_->parts[place.part];
    try {
      read_shared(file.file(), file.header_bytes() + place.entry->begin, place.entry->dtype, {part, 0, part.shape.count()}, wanted, out);
    } catch (const FileError& error) {
      throw CheckpointError(fmt::format("[hugging face] {}", error.what()));
    }
  }
  if (const auto bad = find_first_nonfinite(out)) {
    throw CheckpointError(fmt::format("[hugging face] {}: {} has NaN or infinity at element {} of {}", impl_->folder.string(), spec.name, *bad, wanted.str()));
  }
}

}  // namespace optimus
