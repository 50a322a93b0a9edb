#include "optimus/train/failure_log.hpp"

#include <fmt/chrono.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

#include "optimus/base/error.hpp"
#include "optimus/base/log.hpp"
#include "optimus/train/line_file.hpp"

namespace optimus {

void append_failure(const std::filesystem::path& run_dir, const FailureRecord& record) {
  const nlohmann::ordered_json line = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                                       {"step", record.step},
                                       {"rank", record.rank},
                                       {"host", record.host},
                                       {"kind", record.kind},
                                       {"message", record.message}};
  LineFile(run_dir / "failures.jsonl").append(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
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
