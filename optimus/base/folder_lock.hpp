#pragma once
// One process at a time in a folder.

#include <filesystem>
#include <optional>

namespace optimus {

/// Keeps other processes out of a folder; the system lifts it when the process ends, however that happens.
class FolderLock {
 public:
  /// Takes the lock, or nothing if another process has it. `path`: the file to lock, made if it is not there.
  /// A file system without locks counts as free: it is no reason to stop.  Errors: FileError if the file cannot be made.
  [[nodiscard]] static std::optional<FolderLock> take(const std::filesystem::path& path);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace optimus
