#include "optimus/launch/run_files.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "optimus/base/error.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/base/log.hpp"

namespace optimus::launch {
namespace {

namespace fs = std::filesystem;

std::uintmax_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : size;
}

std::string text_from(const fs::path& path, std::uintmax_t offset) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<Failure> parse_failure(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    Failure failure{.step = json.at("step").get<Index>(),
                    .rank = json.at("rank").get<Index>(),
                    .host = json.at("host").get<std::string>(),
                    .kind = json.at("kind").get<std::string>(),
                    .message = json.value("message", "")};
    if (failure.kind == kRestartKind || failure.kind == kReplacedKind) return std::nullopt;
    return failure;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void append_line(const fs::path& path, const std::string& line) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const bool is_done = fd >= 0 && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!is_done) throw FileError(fmt::format("[launch] cannot write {}: {}", path.string(), std::strerror(reason)));
}

}  // namespace

FailureReader::FailureReader(const fs::path& run_dir) : path_(run_dir / "failures.jsonl"), offset_(size_of(path_)) {}

std::vector<Failure> FailureReader::read_new() {
  std::vector<Failure> found;
  if (size_of(path_) < offset_) offset_ = 0;  // somebody has made the file anew
  const std::string text = text_from(path_, offset_);
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (auto failure = parse_failure(text.substr(begin, end - begin))) found.push_back(std::move(*failure));
    offset_ += end + 1 - begin;
  }
  return found;
}

Index last_step(const fs::path& run_dir) {
  constexpr std::uintmax_t kTail = 1 << 20;  // far more than a line, unless it holds the rows of each of many experts
  const fs::path path = run_dir / "metrics.jsonl";
  const auto size = size_of(path);
  const auto step_in = [&](std::uintmax_t from) {
    std::string text = text_from(path, from);
    Index step = 0;
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto key = text.find("\"step\":", begin);
      if (key < end) step = std::strtoll(text.c_str() + key + 7, nullptr, 10);
    }
    return step;
  };
  const Index step = step_in(size > kTail ? size - kTail : 0);
  return step == 0 && size > kTail ? step_in(0) : step;
}

std::uint64_t life_sign(const fs::path& run_dir) {
  std::string text;
  for (const char* name : {"metrics.jsonl", "log.txt", "failures.jsonl"}) text += fmt::format("{} ", size_of(run_dir / name));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir / "checkpoints", error)) {
    std::error_code ignored;  // it may be renamed at this moment
    text += fmt::format("{}:{} ", entry.path().filename().string(), entry.last_write_time(ignored).time_since_epoch().count());
  }
  return xxh64(text);
}

fs::file_time_type latest_checkpoint_time(const fs::path& run_dir) {
  std::error_code error;
  const auto time = fs::last_write_time(run_dir / "checkpoints" / "latest", error);
  return error ? fs::file_time_type::min() : time;
}

void append_event(const fs::path& run_dir, const Failure& event, const std::vector<std::string>& hosts) noexcept {
  try {
    const nlohmann::ordered_json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                                         {"step", event.step},
                                         {"rank", event.rank},
                                         {"host", event.host},
                                         {"kind", event.kind},
                                         {"message", event.message},
                                         {"hosts", hosts}};
    append_line(run_dir / "failures.jsonl", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
}

}  // namespace optimus::launch
