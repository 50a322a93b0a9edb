#pragma once
// Reading parts of stored tensors into memory. Internal to this folder.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optimus/checkpoint/manifest.hpp"
#include "optimus/checkpoint/read_file.hpp"

namespace optimus {

/// Elements of a stored region, which begin at byte `offset` of `file`, that `wanted` has too, put where they belong in `out` (flat, the elements of `wanted`).
/// Types:    out as stored, or f32 for bf16 and f16.
/// Errors:   FileError.
void read_shared(const ReadFile& file, Index offset, DType dtype, const Region& stored, const Region& wanted, View out);

/// A checkpoint opened for reading. What it holds is trusted: verify first.
class CheckpointReader {
 public:
  explicit CheckpointReader(Manifest manifest);
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  /// Why `chunk` cannot be filled from here (no such tensor, another shape or type); empty if it can.
  [[nodiscard]] std::string problem(const Chunk& chunk) const;
  /// Fills the chunk. Every element is stored exactly once, so none stays as it was.  Errors: FileError.
  void fill(const Chunk& chunk);

 private:
  const ReadFile& open(Index file);

  Manifest manifest_;
  std::vector<std::vector<const StoredChunk*>> chunks_;
  std::map<Index, ReadFile> files_;
};

}  // namespace optimus
