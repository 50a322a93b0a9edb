#include "optimus/checkpoint/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "optimus/base/hash.hpp"

namespace optimus {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int code) {
  throw FileError(fmt::format("[file] cannot read {}: {}", path.string(), std::generic_category().message(code)));
}

}  // namespace

ReadFile::ReadFile(const std::filesystem::path& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail(path, errno);
  struct stat status{};
  const int result = ::fstat(fd_, &status);
  const int code = errno;
  if (result != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    if (result != 0) fail(path, code);
    throw FileError(fmt::format("[file] cannot read {}: not a regular file", path.string()));
  }
  size_ = status.st_size;
}

ReadFile::~ReadFile() {
  if (fd_ >= 0) ::close(fd_);
}

ReadFile::ReadFile(ReadFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

void ReadFile::read(Index offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, errno);
    if (count == 0) throw FileError(fmt::format("[file] {} ends at byte {}, before what should be read", path_.string(), offset));
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

std::uint64_t ReadFile::hash(Index offset, Index count) const {
  Xxh64 hash;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(count, kIoBlockBytes)));
  while (count > 0) {
    const std::span part(block.data(), static_cast<std::size_t>(std::min(count, kIoBlockBytes)));
    read(offset, part);
    hash.update(part);
    offset += static_cast<Index>(part.size());
    count -= static_cast<Index>(part.size());
  }
  return hash.digest();
}

void BlockReader::read(Index offset, std::span<std::byte> out) {
  const auto count = static_cast<Index>(out.size());
  if (count >= kIoBlockBytes) {
    file_.read(offset, out);
    return;
  }
  if (offset < block_begin_ || offset + count > block_begin_ + static_cast<Index>(block_.size())) {
    block_.resize(static_cast<std::size_t>(std::clamp(file_.size() - offset, count, kIoBlockBytes)));
    file_.read(offset, block_);
    block_begin_ = offset;
  }
  std::memcpy(out.data(), block_.data() + (offset - block_begin_), out.size());
}

}  // namespace optimus
