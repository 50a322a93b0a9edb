#include "optimus/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "optimus/base/hash.hpp"
#include "optimus/checkpoint/problems.hpp"
#include "optimus/checkpoint/safetensors.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::string_view kFormat = "optimus-checkpoint";
constexpr std::string_view kOpening = "{\"xxh64\":\"";
constexpr std::string_view kFiles = ",\n\"files\":[";  // no text before it has a line break of its own
constexpr std::size_t kHexDigits = 16;

Json shape_json(const Shape& shape) {
  Json sizes = Json::array();
  for (int d = 0; d < shape.ndim(); ++d) sizes.push_back(shape[d]);
  return sizes;
}

Shape parse_shape(const Json& sizes) {
  Shape shape;
  for (const Json& size : sizes) shape.push_back(size.get<Index>());
  return shape;
}

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU32, DType::kU16, DType::kU8}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw CheckpointError(fmt::format("unknown dtype {}", name));
}

std::uint64_t parse_hex(const Json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

// Box and flat range are left out where they are the whole tensor and the whole box.
Json chunk_json(const StoredChunk& chunk, const Shape& shape) {
  const Region& region = chunk.region;
  Json json{{"tensor", chunk.tensor}};
  if (!(region.box.shape == shape)) {
    json["begin"] = shape_json(region.box.begin);
    json["shape"] = shape_json(region.box.shape);
  }
  if (region.count() != region.box.shape.count()) json["flat"] = {region.flat_begin, region.flat_end};
  json["bytes"] = chunk.bytes;
  json["xxh64"] = hex64(chunk.xxh64);
  return json;
}

StoredChunk parse_chunk(const Json& json, const std::vector<StoredTensor>& tensors) {
  StoredChunk chunk;
  chunk.tensor = json.at("tensor").get<Index>();
  if (chunk.tensor < 0 || chunk.tensor >= static_cast<Index>(tensors.size())) throw CheckpointError("a chunk of an unknown tensor");
  chunk.region.box = Box::whole(tensors[static_cast<std::size_t>(chunk.tensor)].shape);
  if (json.contains("shape")) chunk.region.box = {.begin = parse_shape(json.at("begin")), .shape = parse_shape(json.at("shape"))};
  chunk.region.flat_end = chunk.region.box.shape.count();
  if (json.contains("flat")) {
    chunk.region.flat_begin = json.at("flat").at(0).get<Index>();
    chunk.region.flat_end = json.at("flat").at(1).get<Index>();
  }
  chunk.bytes = json.at("bytes").get<Index>();
  chunk.xxh64 = parse_hex(json.at("xxh64"));
  return chunk;
}

Json file_json(const Manifest& manifest, const StoredFile& file) {
  Json chunks = Json::array();
  for (const StoredChunk& chunk : file.chunks) chunks.push_back(chunk_json(chunk, manifest.tensors[static_cast<std::size_t>(chunk.tensor)].shape));
  return {{"name", file.name}, {"bytes", file.bytes}, {"header_bytes", file.header_bytes}, {"header_xxh64", hex64(file.header_xxh64)}, {"chunks", chunks}};
}

StoredFile parse_file(const Json& json, const std::vector<StoredTensor>& tensors) {
  StoredFile file{.name = json.at("name").get<std::string>(),
                  .bytes = json.at("bytes").get<Index>(),
                  .header_bytes = json.at("header_bytes").get<Index>(),
                  .header_xxh64 = parse_hex(json.at("header_xxh64")),
                  .chunks = {}};
  const std::filesystem::path path(file.name);
  const bool leaves_folder = std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
  if (file.name.empty() || path.is_absolute() || leaves_folder) throw CheckpointError(fmt::format("a file {} outside the folder", file.name));
  Index offset = file.header_bytes;
  for (const Json& item : json.at("chunks")) {
    StoredChunk chunk = parse_chunk(item, tensors);
    const StoredTensor& tensor = tensors[static_cast<std::size_t>(chunk.tensor)];
    if (chunk.bytes != checked_mul(chunk.region.count(), dtype_bytes(tensor.dtype)))
      throw CheckpointError(fmt::format("a chunk of {} has a wrong size", tensor.name));
    chunk.offset = offset;
    offset = checked_add(offset, chunk.bytes);
    file.chunks.push_back(chunk);
  }
  if (offset != file.bytes) throw CheckpointError(fmt::format("{}: {} bytes, its header and chunks are {}", file.name, file.bytes, offset));
  return file;
}

Json tensors_json(const std::vector<StoredTensor>& tensors) {
  Json json = Json::array();
  for (const StoredTensor& tensor : tensors) json.push_back({{"name", tensor.name}, {"dtype", dtype_name(tensor.dtype)}, {"shape", shape_json(tensor.shape)}});
  return json;
}

std::vector<StoredTensor> parse_tensors(const Json& json) {
  std::vector<StoredTensor> tensors;
  for (const Json& item : json)
    tensors.push_back({item.at("name").get<std::string>(), parse_dtype(item.at("dtype").get<std::string>()), parse_shape(item.at("shape"))});
  return tensors;
}

Json position_json(const TrainingPosition& p) {
  return {{"step", p.step},   {"tokens", p.tokens},       {"next_sample", p.next_sample},
          {"epoch", p.epoch}, {"adam_step", p.adam_step}, {"nonfinite_steps", p.nonfinite_steps}};
}

// A number of steps or samples, with room left to count on.
Index parse_count(const Json& json, const char* key) {
  constexpr Index kMost = Index{1} << 62;
  const Json& value = json.at(key);
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() >= static_cast<double>(kMost))
    throw CheckpointError(fmt::format("{} {} is no count", key, value.dump()));
  return value.get<Index>();
}

TrainingPosition parse_position(const Json& json) {
  const auto get = [&](const char* key) { return parse_count(json, key); };
  return {.step = get("step"),
          .tokens = get("tokens"),
          .next_sample = get("next_sample"),
          .epoch = get("epoch"),
          .adam_step = get("adam_step"),
          .nonfinite_steps = get("nonfinite_steps")};
}

std::string lines(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "\n" : ",\n") + item.dump();
  return text;
}

// A line for each file, made and read one at a time: of a large world's checkpoint there are tens of megabytes, as JSON in memory ten times that.
std::string file_lines(const Manifest& manifest) {
  std::string text;
  for (const StoredFile& file : manifest.files) text += (text.empty() ? "\n" : ",\n") + file_json(manifest, file).dump();
  return text;
}

void parse_file_lines(std::string_view text, Manifest& manifest) {
  while (text.starts_with("\n{")) {
    text.remove_prefix(1);
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (!line.empty() && line.back() != '}') line.remove_suffix(1);          // the comma
    if (end + 1 >= text.size() && line.ends_with("]}")) line.remove_suffix(2);  // of the whole text, behind the last file
    manifest.files.push_back(parse_file(Json::parse(line), manifest.tensors));
    for (StoredChunk& chunk : manifest.files.back().chunks) chunk.file = static_cast<Index>(manifest.files.size()) - 1;
    text.remove_prefix(end);
  }
}

// Everything behind the checksum's digits.
std::string body_text(const Manifest& manifest) {
  const CheckpointInfo& info = manifest.info;
  Json head{{"format", kFormat},
            {"version", kVersion},
            {"full_state", info.is_full_state},
            {"sequence", info.sequence},
            {"position", position_json(info.position)},
            {"weights_dtype", info.weights_dtype},
            {"layout", info.layout},
            {"hf_config", info.hf_config},
            {"run_config", info.run_config}};
  std::string text = "\"";
  for (const auto& [key, value] : head.items()) text += fmt::format(",\n\"{}\":{}", key, value.dump());
  text += ",\n\"tensors\":[" + lines(tensors_json(manifest.tensors)) + "]";
  text += kFiles;
  return text + file_lines(manifest) + "]}\n";
}

Manifest parse_body(std::string_view text, const std::filesystem::path& folder) {
  const std::size_t files = text.find(kFiles);
  if (files == std::string_view::npos) throw CheckpointError("it has no table of files");
  const Json json = Json::parse(std::string(text.substr(0, files)) + "}");
  if (json.at("format") != kFormat) throw CheckpointError(fmt::format("format {}", json.at("format").dump()));
  if (json.at("version") != kVersion) throw CheckpointError(fmt::format("version {}, this program reads {}", json.at("version").dump(), kVersion));
  Manifest manifest;
  manifest.info = {.folder = folder,
                   .is_full_state = json.at("full_state").get<bool>(),
                   .position = parse_position(json.at("position")),
                   .hf_config = json.at("hf_config").get<std::string>(),
                   .run_config = json.at("run_config").get<std::string>(),
                   .layout = json.at("layout").get<std::string>(),
                   .weights_dtype = json.at("weights_dtype").get<std::string>(),
                   .sequence = parse_count(json, "sequence")};
  manifest.tensors = parse_tensors(json.at("tensors"));
  parse_file_lines(text.substr(files + kFiles.size()), manifest);
  return manifest;
}

}  // namespace

Index Manifest::find_tensor(std::string_view name) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name, [](const StoredTensor& tensor, std::string_view key) { return tensor.name < key; });
  return at != tensors.end() && at->name == name ? at - tensors.begin() : -1;
}

std::vector<std::vector<const StoredChunk*>> Manifest::chunks_by_tensor() const {
  std::vector<std::vector<const StoredChunk*>> result(tensors.size());
  for (const StoredFile& file : files) {
    for (const StoredChunk& chunk : file.chunks) result[static_cast<std::size_t>(chunk.tensor)].push_back(&chunk);
  }
  return result;
}

Index Manifest::total_bytes() const {
  return std::accumulate(files.begin(), files.end(), Index{0}, [](Index sum, const StoredFile& file) { return sum + file.bytes; });
}

std::string chunk_key(const StoredTensor& tensor, const Region& region) { return region.is_whole(tensor.shape) ? tensor.name : tensor.name + region.str(); }

std::string tables_line(const Manifest& part) {
  Json files = Json::array();
  for (const StoredFile& file : part.files) files.push_back(file_json(part, file));
  return Json{{"tensors", tensors_json(part.tensors)}, {"files", files}}.dump();
}

void add_tables_line(Manifest& manifest, std::map<std::string, Index>& known, const std::string& line) {
  const Json json = Json::parse(line);
  const std::vector<StoredTensor> tensors = parse_tensors(json.at("tensors"));
  std::vector<Index> place;  // of the rank's tensors in the manifest
  for (const StoredTensor& tensor : tensors) {
    const auto [at, is_new] = known.emplace(tensor.name, static_cast<Index>(manifest.tensors.size()));
    if (is_new) manifest.tensors.push_back(tensor);
    const StoredTensor& first = manifest.tensors[static_cast<std::size_t>(at->second)];
    if (first.dtype != tensor.dtype || !(first.shape == tensor.shape)) {
      throw CheckpointError(fmt::format("[checkpoint] ranks disagree about {}: {} {} and {} {}", tensor.name, dtype_name(first.dtype), first.shape.str(),
                                        dtype_name(tensor.dtype), tensor.shape.str()));
    }
    place.push_back(at->second);
  }
  for (const Json& item : json.at("files")) {
    StoredFile file = parse_file(item, tensors);
    for (StoredChunk& chunk : file.chunks) {
      chunk.tensor = place[static_cast<std::size_t>(chunk.tensor)];
      chunk.file = static_cast<Index>(manifest.files.size());
    }
    manifest.files.push_back(std::move(file));
  }
}

void sort_tensors(Manifest& manifest) {
  std::vector<Index> order(manifest.tensors.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return manifest.tensors[static_cast<std::size_t>(a)].name < manifest.tensors[static_cast<std::size_t>(b)].name; });
  std::vector<Index> place(order.size());
  std::vector<StoredTensor> sorted;
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<Index>(i);
    sorted.push_back(manifest.tensors[static_cast<std::size_t>(order[i])]);
  }
  manifest.tensors = std::move(sorted);
  for (StoredFile& file : manifest.files) {
    for (StoredChunk& chunk : file.chunks) chunk.tensor = place[static_cast<std::size_t>(chunk.tensor)];
  }
}

std::string manifest_text(const Manifest& manifest) {
  const std::string body = body_text(manifest);
  return std::string(kOpening) + hex64(xxh64(body)) + body;
}

Manifest parse_manifest(const std::string& text, const std::filesystem::path& folder) {
  const std::string name = (folder / kManifestName).string();
  const auto fail = [&](std::string_view problem) { throw CheckpointError(fmt::format("[checkpoint] {}: {}", name, problem)); };
  if (text.size() < kOpening.size() + kHexDigits || !text.starts_with(kOpening)) fail("not a manifest, or damaged");
  const std::string_view body = std::string_view(text).substr(kOpening.size() + kHexDigits);
  if (text.compare(kOpening.size(), kHexDigits, hex64(xxh64(body))) != 0) fail("altered or cut short: its checksum does not fit");
  Manifest manifest;
  try {
    manifest = parse_body(text, folder);
  } catch (const std::exception& error) {  // the JSON library's, and ours without the file's name
    fail(error.what());
  }
  throw_if_problems<CheckpointError>(fmt::format("[checkpoint] {}", name), coverage_problems(manifest));
  return manifest;
}

}  // namespace optimus
