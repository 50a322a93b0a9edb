#include "optimus/base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "optimus/base/check.hpp"

namespace optimus {
namespace {

constexpr Index kHandOverBytes = Index{8} << 20;

[[noreturn]] void fail(std::string_view action, const fs::path& path, int code) {
  throw FileError(fmt::format("[file] cannot {} {}: {}", action, path.string(), std::generic_category().message(code)));
}

// A descriptor that closes itself. For reading, where the result of close does not matter.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (fd_ < 0) fail("open", path, errno);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, Index offset, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  // The rename of commit() would put a file in the place of a device or a pipe.
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw FileError(fmt::format("[file] cannot write {}: it is there and not a regular file; choose another name", path_.string()));
  for (int attempt = 0; fd_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.partial-{}-{}", path_.string(), ::getpid(), attempt);
    fd_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) fail("create", path_, errno);
  }
}

AtomicFile::~AtomicFile() { remove_temporary(); }

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      handed_over_(other.handed_over_) {}

void AtomicFile::write(std::span<const std::byte> bytes) {
  OPTIMUS_CHECK(fd_ >= 0, "write to a committed file");
  write_all(fd_, size_, bytes, path_);
  size_ += static_cast<Index>(bytes.size());
  // The disk works while the next bytes are made. Only a hint: where it is not known nothing is lost, and commit() syncs everything.
  if (size_ - handed_over_ >= kHandOverBytes) {
    (void)::sync_file_range(fd_, handed_over_, size_ - handed_over_, SYNC_FILE_RANGE_WRITE);
    handed_over_ = size_;
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::write_at(Index offset, std::span<const std::byte> bytes) {
  OPTIMUS_CHECK(fd_ >= 0, "write to a committed file");
  OPTIMUS_CHECK(offset >= 0 && offset + static_cast<Index>(bytes.size()) <= size_, "write_at beyond what was written");
  write_all(fd_, offset, bytes, path_);
}

void AtomicFile::commit() {
  OPTIMUS_CHECK(fd_ >= 0, "file committed twice");
  if (::fsync(fd_) != 0) fail("sync", path_, errno);
  // Network file systems report a full disk or quota only here.
  if (::close(std::exchange(fd_, -1)) != 0) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    fail("close", path_, code);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    fail("put in place", path_, code);
  }
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void AtomicFile::remove_temporary() noexcept {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  ::unlink(temporary_.c_str());
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  std::string text;
  std::size_t size = 0;
  // One byte more than the size, so that the end shows without growing; pipes have size 0 and grow as they come.
  text.resize(static_cast<std::size_t>(status.st_size) + 1);
  while (true) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path, errno);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
    if (size == text.size()) text.resize(2 * size + 4096);
  }
  text.resize(size);
  return text;
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY);
  // Some network file systems cannot sync a folder and say EINVAL; the rename itself is then all there is.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) fail("sync", folder, errno);
}

void make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) fail("make the folder", folder, code.value());
}

Index free_bytes(const fs::path& path) {
  std::error_code code;
  fs::path existing = fs::absolute(path, code);
  while (!fs::exists(existing, code) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs status{};
  if (::statvfs(existing.c_str(), &status) != 0) fail("ask for the free space of", path, errno);
  return static_cast<Index>(status.f_bavail) * static_cast<Index>(status.f_frsize);
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError(fmt::format("[file] cannot map {}: not a regular file", path.string()));
  if (status.st_size == 0) return;
  size_ = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail("map", path, errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace optimus
