#pragma once
// Reading parts of large files by position. Not mapped: a file cut short or a failing disk is then an error, not a signal.

#include <filesystem>
#include <span>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// An open file, read from any number of places. Safe to use from several threads.
class ReadFile {
 public:
  explicit ReadFile(const std::filesystem::path& path);  ///< Errors: FileError with the path and the system's reason; not a regular file
  ~ReadFile();
  ReadFile(ReadFile&& other) noexcept;
  ReadFile& operator=(ReadFile&&) = delete;
  [[nodiscard]] Index size() const { return size_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Fills `out` from byte `offset` on.  Errors: FileError, also if the file ends before.
  void read(Index offset, std::span<std::byte> out) const;
  /// xxh64 of bytes [offset, offset + count), in blocks of bounded size.
  [[nodiscard]] std::uint64_t hash(Index offset, Index count) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  Index size_ = 0;
};

/// Many reads of rising position: short ones come from one block in memory, long ones go straight to where they are wanted.
class BlockReader {
 public:
  explicit BlockReader(const ReadFile& file) : file_(file) {}
  void read(Index offset, std::span<std::byte> out);

 private:
  const ReadFile& file_;
  std::vector<std::byte> block_;
  Index block_begin_ = 0;
};

/// Bytes read or written at a time.
inline constexpr Index kIoBlockBytes = Index{1} << 20;

}  // namespace optimus
