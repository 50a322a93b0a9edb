#include "optimus/train/line_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"

namespace optimus {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw FileError(fmt::format("[log] cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

/// The "step" of a line, or -1 if it is no such line.
Index step_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  const bool is_record = json.is_object() && json.contains("step") && json["step"].is_number_integer();
  return is_record ? json["step"].get<Index>() : -1;
}

void copy_start(const std::filesystem::path& path, Index bytes, AtomicFile& out) {
  std::ifstream in(path, std::ios::binary);
  std::string block;
  for (Index done = 0; done < bytes; done += static_cast<Index>(block.size())) {
    block.resize(static_cast<std::size_t>(std::min(bytes - done, Index{1} << 20)));
    if (!in.read(block.data(), static_cast<std::streamsize>(block.size()))) fail(path, "read");
    out.write(block);
  }
}

}  // namespace

LineFile::LineFile(std::filesystem::path path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail(path_, "open");
}

LineFile::~LineFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LineFile::append(std::string_view line) {
  waiting_.append(line).push_back('\n');
  flush();
}

/// Lines in a file that somebody has removed would be lost with its last reader.
void LineFile::open_again_if_removed() {
  struct stat status{};
  if (::fstat(fd_, &status) != 0 || status.st_nlink > 0) return;
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) fail(path_, "open");
  ::close(std::exchange(fd_, fd));
  log_warning("[log] {} was removed while it was written: lines before this one are gone", path_.string());
}

void LineFile::flush() {
  open_again_if_removed();
  while (!waiting_.empty()) {
    const ssize_t written = ::write(fd_, waiting_.data(), waiting_.size());
    if (written < 0 && errno != EINTR) fail(path_, "write");
    if (written > 0) waiting_.erase(0, static_cast<std::size_t>(written));
  }
}

Index keep_steps(const std::filesystem::path& path, Index step) {
  if (!std::filesystem::exists(path)) return 0;
  std::ifstream in(path, std::ios::binary);
  Index last = 0, kept_bytes = 0, unreadable = 0;
  std::optional<AtomicFile> mended;  // from the first good line behind a bad one on
  bool has_gap = false;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // a last line without its end sets eof
    const Index at = step_of(line);
    if (at < 0) ++unreadable;
    if (at <= last || at > step) {
      has_gap = true;
      continue;
    }
    if (has_gap && !mended) {
      mended.emplace(path);
      copy_start(path, kept_bytes, *mended);
    }
    last = at;
    kept_bytes += static_cast<Index>(line.size()) + 1;
    if (mended) mended->write(line + '\n');
  }
  in.close();
  if (unreadable > 0) log_warning("[log] {}: {} left out that cannot be read", path.string(), counted(unreadable, "line"));
  if (mended) mended->commit();
  else if (kept_bytes != static_cast<Index>(std::filesystem::file_size(path)) && ::truncate(path.c_str(), kept_bytes) != 0) fail(path, "shorten");
  return last;
}

Index set_lines_aside(const std::filesystem::path& path, const std::filesystem::path& aside) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return 0;
  Index lines = 0;
  {
    std::ifstream in(path, std::ios::binary);
    LineFile out(aside);
    for (std::string line; std::getline(in, line); ++lines) out.append(line);
  }
  if (::truncate(path.c_str(), 0) != 0) fail(path, "shorten");
  return lines;
}

}  // namespace optimus
