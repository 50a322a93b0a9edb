#include "optimus/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "optimus/base/check.hpp"
#include "optimus/checkpoint/problems.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian and are read and written as they are");

namespace optimus {
namespace {

using Json = nlohmann::json;

constexpr Index kMaxHeaderBytes = 100'000'000;  // the limit of the format's own library
constexpr std::array<std::pair<DType, std::string_view>, 9> kDTypes{{{DType::kF64, "F64"},
                                                                     {DType::kF32, "F32"},
                                                                     {DType::kBF16, "BF16"},
                                                                     {DType::kF16, "F16"},
                                                                     {DType::kI64, "I64"},
                                                                     {DType::kI32, "I32"},
                                                                     {DType::kU32, "U32"},
                                                                     {DType::kU16, "U16"},
                                                                     {DType::kU8, "U8"}}};

ReadFile open_for_reading(const std::filesystem::path& path) {
  try {
    return ReadFile(path);
  } catch (const FileError& error) {
    throw CheckpointError(fmt::format("[safetensors] {}", error.what()));
  }
}

[[noreturn]] void fail(const ReadFile& file, const std::string& problem) {
  throw CheckpointError(fmt::format("[safetensors] {}: {}", file.path().string(), problem));
}

std::string read_header(const ReadFile& file) {
  if (file.size() == 0) fail(file, "the file is empty");
  if (file.size() < 8) fail(file, fmt::format("only {} bytes: cut short", file.size()));
  std::array<std::byte, 8> length_bytes{};
  file.read(0, length_bytes);
  const auto length = std::bit_cast<std::uint64_t>(length_bytes);
  if (std::memcmp(length_bytes.data(), "version ", 8) == 0) fail(file, "this is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes)) fail(file, fmt::format("not a safetensors file: its header would be {} bytes", length));
  if (length > static_cast<std::uint64_t>(file.size() - 8))
    fail(file, fmt::format("cut short: the header should have {} bytes, the whole file has {}", length, file.size()));
  std::string header(static_cast<std::size_t>(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(header)));
  return header;
}

// The header as JSON. The library keeps the last of two equal keys; here that is a problem.
Json parse_header(const ReadFile& file, const std::string& text) {
  std::set<std::string> names;
  std::string twice;
  const auto note_keys = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second) twice = parsed.get<std::string>();
    return true;
  };
  const Json header = Json::parse(text, note_keys, /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object()) fail(file, "not a safetensors file, or damaged: the header is not a JSON object");
  if (!twice.empty()) fail(file, fmt::format("the header names {} twice", twice));
  return header;
}

std::optional<Index> as_size(const Json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) return std::nullopt;
  return value.get<Index>();
}

// Reads one tensor's description; an empty text means that nothing is wrong with it.
std::string parse_entry(const Json& value, SafetensorsEntry& entry) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
    return "dtype, shape or data_offsets is missing";
  const auto dtype = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const auto& pair) { return value["dtype"] == pair.second; });
  if (dtype == kDTypes.end()) return fmt::format("dtype {} is not read", value["dtype"].dump());
  entry.dtype = dtype->first;
  const Json &shape = value["shape"], &offsets = value["data_offsets"];
  if (!shape.is_array() || shape.size() > static_cast<std::size_t>(Shape::kMaxDims))
    return fmt::format("shape {} is not a list of up to {} sizes", shape.dump(), Shape::kMaxDims);
  Index bytes = dtype_bytes(entry.dtype);
  for (const Json& item : shape) {
    const auto size = as_size(item);
    if (!size || __builtin_mul_overflow(bytes, *size, &bytes)) return fmt::format("shape {} is not a list of sizes", shape.dump());
    entry.shape.push_back(*size);
  }
  if (!offsets.is_array() || offsets.size() != 2 || !as_size(offsets[0]) || !as_size(offsets[1]))
    return fmt::format("data_offsets {} are not two positions", offsets.dump());
  entry.begin = *as_size(offsets[0]);
  entry.end = *as_size(offsets[1]);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    return fmt::format("{} {} needs {} bytes, data_offsets are [{}, {}]", dtype->second, entry.shape.str(), bytes, entry.begin, entry.end);
  }
  return "";
}

}  // namespace

std::string_view safetensors_dtype(DType dtype) {
  for (const auto& [candidate, name] : kDTypes) {
    if (candidate == dtype) return name;
  }
  throw UnsupportedError(fmt::format("[safetensors] no name for dtype {}", dtype_name(dtype)));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(open_for_reading(path)) {
  std::string text;
  try {
    text = read_header(file_);
  } catch (const FileError& error) {
    fail(file_, error.what());
  }
  header_bytes_ = 8 + static_cast<Index>(text.size());
  const Json header = parse_header(file_, text);
  std::vector<std::string> problems;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) problems.emplace_back("__metadata__ is not an object");
      for (const auto& [key, item] : value.items()) {
        if (item.is_string()) metadata_[key] = item.get<std::string>();
        else problems.push_back(fmt::format("__metadata__ {} is not a string", key));
      }
      continue;
    }
    SafetensorsEntry entry{.name = name, .shape = {}};
    if (const std::string problem = parse_entry(value, entry); !problem.empty()) problems.push_back(fmt::format("tensor {}: {}", name, problem));
    else entries_.push_back(std::move(entry));
  }
  // Offsets say something only when all of them were read.
  if (problems.empty()) check_offsets(problems);
  throw_if_problems<CheckpointError>(fmt::format("[safetensors] {} is damaged or not a safetensors file", path.string()), problems);
}

void SafetensorsFile::check_offsets(std::vector<std::string>& problems) const {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  Index position = 0;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin > position) problems.push_back(fmt::format("bytes {} to {} belong to no tensor", position, entry->begin));
    if (entry->begin < position) problems.push_back(fmt::format("tensor {} overlaps another one at byte {}", entry->name, entry->begin));
    position = std::max(position, entry->end);
  }
  const Index data_bytes = file_.size() - header_bytes_;
  if (position > data_bytes) problems.push_back(fmt::format("cut short: tensors need {} bytes, the file has {}", position + header_bytes_, file_.size()));
  if (position < data_bytes) problems.push_back(fmt::format("{} bytes follow the last tensor", data_bytes - position));
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name, [](const SafetensorsEntry& entry, std::string_view key) { return entry.name < key; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

void SafetensorsFile::read(const SafetensorsEntry& entry, View out) const {
  OPTIMUS_CHECK(out.bytes() == entry.end - entry.begin && out.dtype() == entry.dtype, "a tensor is read into a view of another size or type");
  file_.read(header_bytes_ + entry.begin, std::span(out.data(), static_cast<std::size_t>(out.bytes())));
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<SafetensorsEntry> entries, const std::map<std::string, std::string>& metadata)
    : file_(std::move(path)), entries_(std::move(entries)) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  Index position = 0;
  for (SafetensorsEntry& entry : entries_) {
    entry.begin = position;
    entry.end = position = checked_add(position, checked_mul(entry.shape.count(), dtype_bytes(entry.dtype)));
    std::vector<Index> sizes;
    for (int d = 0; d < entry.shape.ndim(); ++d) sizes.push_back(entry.shape[d]);
    OPTIMUS_CHECK(!header.contains(entry.name), "two tensors of one name in a file");
    header[entry.name] = {{"dtype", safetensors_dtype(entry.dtype)}, {"shape", sizes}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = header.dump();
  text.append(static_cast<std::size_t>(round_up(static_cast<Index>(text.size()), 8)) - text.size(), ' ');  // tensors start aligned
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(text.size()));
  text.insert(0, length.data(), length.size());
  file_.write(text);
  header_bytes_ = static_cast<Index>(text.size());
  header_xxh64_ = xxh64(text);
  finish_full_tensors();
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    OPTIMUS_CHECK(xxh64s_.size() < entries_.size(), "more bytes than the header promised");
    const auto left = static_cast<std::size_t>(entries_[xxh64s_.size()].end - written_);
    OPTIMUS_CHECK(bytes.size() <= left, "a tensor's bytes go beyond its end");
    // In blocks: each is hashed while it is in the cache.
    const auto block = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(kIoBlockBytes)));
    hash_.update(block);
    file_.write(block);
    written_ += static_cast<Index>(block.size());
    bytes = bytes.subspan(block.size());
    finish_full_tensors();
  }
}

void SafetensorsWriter::finish_full_tensors() {
  while (xxh64s_.size() < entries_.size() && entries_[xxh64s_.size()].end == written_) {
    xxh64s_.push_back(hash_.digest());
    hash_ = Xxh64();
  }
}

void SafetensorsWriter::commit() {
  OPTIMUS_CHECK(xxh64s_.size() == entries_.size(), "a file is committed before all its tensors were written");
  file_.commit();
}

}  // namespace optimus
