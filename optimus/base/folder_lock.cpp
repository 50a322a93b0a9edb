#include "optimus/base/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "optimus/base/error.hpp"

namespace optimus {

std::optional<FolderLock> FolderLock::take(const std::filesystem::path& path) {
  FolderLock lock(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666));
  if (lock.fd_ < 0) throw FileError(fmt::format("[file] cannot create {}: {}", path.string(), std::generic_category().message(errno)));
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace optimus
