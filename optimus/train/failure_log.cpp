#include "optimus/train/failure_log.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "optimus/base/error.hpp"
#include "optimus/base/log.hpp"
#include "optimus/train/line_file.hpp"

namespace optimus {
namespace {

std::filesystem::path log_in(const std::filesystem::path& run_dir) { return run_dir / "failures.jsonl"; }

/// Keeps the others out of the file for as long as it lives. Who is stopped while holding it must not stop the rest: they wait for a second and go on.
class Turn {
 public:
  explicit Turn(const std::filesystem::path& file) : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    for (int i = 0; fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 && i < 100; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ~Turn() {
    if (fd_ >= 0) ::close(fd_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int fd_;
};

bool has_kind(const std::filesystem::path& file, const std::string& kind, Index from_bytes) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(from_bytes);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("kind", nlohmann::json()) == kind) return true;
  }
  return false;
}

}  // namespace

Index failure_log_bytes(const std::filesystem::path& run_dir) {
  std::ifstream in(log_in(run_dir), std::ios::binary | std::ios::ate);  // opened, not asked for its size: a network file system then looks anew
  return in ? static_cast<Index>(in.tellg()) : 0;
}

bool append_first_failure(const std::filesystem::path& run_dir, const FailureRecord& record, Index from_bytes) {
  const Turn turn(log_in(run_dir));
  if (has_kind(log_in(run_dir), record.kind, from_bytes)) return false;
  if (record.kind == "lost" && has_kind(log_in(run_dir), "hang", from_bytes)) return false;
  append_failure(run_dir, record);
  return true;
}

void append_failure(const std::filesystem::path& run_dir, const FailureRecord& record) {
  const nlohmann::ordered_json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                                       {"step", record.step},
                                       {"rank", record.rank},
                                       {"host", record.host},
                                       {"kind", record.kind},
                                       {"message", record.message}};
  LineFile(log_in(run_dir)).append(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void try_append_failure(const std::filesystem::path& run_dir, const FailureRecord& record) noexcept {
  try {
    append_failure(run_dir, record);
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
}

std::string failure_kind(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known == nullptr) return "error";
  if (known->code() == ExitCode::kLostRank) return "lost";
  if (known->code() == ExitCode::kNonFinite) return std::string(error.what()).find("inf ") != std::string::npos ? "inf" : "nan";
  return "error";
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace optimus
