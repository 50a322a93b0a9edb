#pragma once
// The safetensors format: 8 bytes of header length, a JSON header, then the tensors' bytes without gaps. Reading checks all of that; writing streams.

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "optimus/base/file.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/checkpoint/read_file.hpp"
#include "optimus/tensor/view.hpp"

namespace optimus {

/// One tensor of a file. `begin` and `end` are byte positions behind the header.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Index begin = 0, end = 0;
};

/// "F32", "BF16", …: as the format spells it.
[[nodiscard]] std::string_view safetensors_dtype(DType dtype);

/// A file opened for reading; its header is checked, its tensors are read when asked for.
class SafetensorsFile {
 public:
  /// Errors: CheckpointError naming the file and every problem: no such file, cut short, not this format, an unknown dtype, offsets that overlap, leave a
  ///         gap, disagree with shape and dtype, or do not end with the file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< by name
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;                 ///< nullptr: no such tensor
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  [[nodiscard]] const ReadFile& file() const { return file_; }
  [[nodiscard]] Index header_bytes() const { return header_bytes_; }  ///< the length field counts
  /// Bytes of a whole tensor.
  void read(const SafetensorsEntry& entry, View out) const;

 private:
  void check_offsets(std::vector<std::string>& problems) const;

  ReadFile file_;
  Index header_bytes_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// Writes one file: the header at construction, then the tensors' bytes in the order of `entries`. Any size; nothing is kept in memory.
class SafetensorsWriter {
 public:
  /// begin and end of the entries are filled in here. Put larger element types first, so that every tensor is aligned.
  SafetensorsWriter(std::filesystem::path path, std::vector<SafetensorsEntry> entries, const std::map<std::string, std::string>& metadata = {});
  /// Appends to the current tensor; the next one follows when it is full.  Errors: InternalError beyond its end.
  void write(std::span<const std::byte> bytes);
  void write(ConstView tensor) { write(std::span(tensor.data(), static_cast<std::size_t>(tensor.bytes()))); }
  /// Syncs and puts the file in place.  Errors: InternalError if a tensor is not complete; FileError.
  void commit();

  [[nodiscard]] Index header_bytes() const { return header_bytes_; }
  [[nodiscard]] std::uint64_t header_xxh64() const { return header_xxh64_; }
  [[nodiscard]] Index bytes() const { return file_.size(); }
  /// Of each tensor, complete when all is written.
  [[nodiscard]] const std::vector<std::uint64_t>& xxh64s() const { return xxh64s_; }

 private:
  void finish_full_tensors();

  AtomicFile file_;
  std::vector<SafetensorsEntry> entries_;
  Index header_bytes_ = 0;
  std::uint64_t header_xxh64_ = 0;
  std::vector<std::uint64_t> xxh64s_;  ///< of the tensors before the current one
  Xxh64 hash_;
  Index written_ = 0;  ///< bytes behind the header
};

}  // namespace optimus
