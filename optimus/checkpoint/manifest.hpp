#pragma once
// manifest.json: which chunk of which tensor lies where, with sizes and checksums. Internal to this folder.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/region.hpp"

namespace optimus {

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

/// A chunk in a file. Chunks of a file follow one another without gaps, so that every byte is under some checksum.
struct StoredChunk {
  Index tensor = 0;  ///< which of Manifest::tensors
  Region region;
  Index file = 0;    ///< which of Manifest::files
  Index offset = 0;  ///< from the start of the file
  Index bytes = 0;
  std::uint64_t xxh64 = 0;
};

struct StoredFile {
  std::string name;  ///< relative to the checkpoint's folder
  Index bytes = 0, header_bytes = 0;
  std::uint64_t header_xxh64 = 0;
  std::vector<StoredChunk> chunks;
};

struct Manifest {
  CheckpointInfo info;
  std::vector<StoredTensor> tensors;  ///< by name
  std::vector<StoredFile> files;

  [[nodiscard]] Index find_tensor(std::string_view name) const;  ///< -1: no such tensor
  /// Chunks of each tensor.
  [[nodiscard]] std::vector<std::vector<const StoredChunk*>> chunks_by_tensor() const;
  [[nodiscard]] Index total_bytes() const;
};

/// Name of a chunk inside its file.
[[nodiscard]] std::string chunk_key(const StoredTensor& tensor, const Region& region);

/// Tensors and files as one line of text: what a rank tells of what it wrote.
[[nodiscard]] std::string tables_line(const Manifest& part);
/// Adds a rank's line. `known`: numbers of the tensors so far, empty at first.  Errors: CheckpointError if ranks disagree about a tensor.
void add_tables_line(Manifest& manifest, std::map<std::string, Index>& known, const std::string& line);
/// Sorts tensors by name (chunks follow).
void sort_tensors(Manifest& manifest);

/// Text of manifest.json. Its first value is the checksum of all that follows.
[[nodiscard]] std::string manifest_text(const Manifest& manifest);
/// Errors: CheckpointError naming `name`: not a manifest, altered, of a newer version, chunks that do not cover every tensor exactly once, sizes that disagree.
[[nodiscard]] Manifest parse_manifest(const std::string& text, const std::filesystem::path& folder);
/// Text of FOLDER/manifest.json.  Errors: CheckpointError.
[[nodiscard]] std::string read_manifest_text(const std::filesystem::path& folder);
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

/// Every way in which chunks fail to cover the tensors exactly once.
[[nodiscard]] std::vector<std::string> coverage_problems(const Manifest& manifest);

/// Files that are missing or have another size.
[[nodiscard]] std::vector<std::string> size_problems(const std::filesystem::path& folder, const Manifest& manifest);
/// Everything wrong with one file: missing, another size, altered header or chunks. Reads all of it.
[[nodiscard]] std::vector<std::string> file_problems(const std::filesystem::path& folder, const Manifest& manifest, const StoredFile& file);

inline constexpr const char* kManifestName = "manifest.json";

}  // namespace optimus
