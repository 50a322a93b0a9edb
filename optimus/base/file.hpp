#pragma once
// Files that are either whole or not there: written aside, synced, renamed. And files mapped for reading.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

namespace fs = std::filesystem;

/// A file being written under a temporary name in the folder of `path`; it appears as `path` only in commit().
///
/// Errors: FileError naming the path and the system's reason (full disk, no permission; a folder, device or pipe in its place) from every call.
/// The destructor removes what was not committed.
class AtomicFile {
 public:
  explicit AtomicFile(fs::path path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  /// Appends.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Overwrites bytes already written at `offset` (for headers whose values are known last).
  void write_at(Index offset, std::span<const std::byte> bytes);
  [[nodiscard]] Index size() const { return size_; }
  /// fsync, rename to `path`, fsync of the folder. Nothing may be called after it.
  void commit();

 private:
  void remove_temporary() noexcept;
  fs::path path_, temporary_;
  int fd_ = -1;
  Index size_ = 0;
  Index handed_over_ = 0;  ///< bytes that the system was told to begin writing
};

/// Writes `text` as the whole file `path`, atomically and synced.
void write_file_atomically(const fs::path& path, std::string_view text);
/// The whole file.  Errors: FileError.
[[nodiscard]] std::string read_file(const fs::path& path);
/// fsync of a folder, so that renames in it survive a power cut.
void sync_folder(const fs::path& folder);
/// Makes the folder and its parents.  Errors: FileError.
void make_folders(const fs::path& folder);
/// Free bytes for this user on the file system that holds `path` (or its nearest existing parent).
[[nodiscard]] Index free_bytes(const fs::path& path);

/// A file mapped read-only. Pages are read when touched: a 6 GB file costs nothing until then.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);  ///< Errors: FileError
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace optimus
