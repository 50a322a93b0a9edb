#pragma once
// failures.jsonl: what went wrong, when and where, one line each.

#include <exception>
#include <filesystem>
#include <string>

#include "optimus/base/index.hpp"

namespace optimus {

/// One failure. `kind`: nan, inf, lost, hang, write, error.
struct FailureRecord {
  Index step = 0, rank = 0;
  std::string host, kind, message;
};

/// Appends a line with the time. Any rank may; a line is one write.  Errors: FileError.
void append_failure(const std::filesystem::path& run_dir, const FailureRecord& record);

/// "lost" for a peer that is gone, "nan" or "inf" for a number, else "error".
[[nodiscard]] std::string failure_kind(const std::exception& error);

/// This machine's name.
[[nodiscard]] std::string host_name();

}  // namespace optimus
