#include "optimus/train/line_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "optimus/base/error.hpp"

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

}  // namespace

LineFile::LineFile(std::filesystem::path path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail(path_, "open");
}

LineFile::~LineFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LineFile::append(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) fail(path_, "write");
    if (written > 0) done += static_cast<std::size_t>(written);
  }
}

Index keep_steps(const std::filesystem::path& path, Index step) {
  if (!std::filesystem::exists(path)) return 0;
  std::ifstream in(path, std::ios::binary);
  Index last = 0, kept_bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {  // a last line without its end sets eof
    const Index at = step_of(line);
    if (at <= last || at > step) break;
    last = at;
    kept_bytes += static_cast<Index>(line.size()) + 1;
  }
  in.close();
  if (kept_bytes != static_cast<Index>(std::filesystem::file_size(path)) && ::truncate(path.c_str(), kept_bytes) != 0) fail(path, "shorten");
  return last;
}

}  // namespace optimus
