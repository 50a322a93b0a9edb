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
/// The length of the file, 0 if there is none.
[[nodiscard]] Index failure_log_bytes(const std::filesystem::path& run_dir);
/// Appends unless a line of the same kind stands behind the first `from_bytes` already: of several ranks that tell of one event the first is heard.
/// A rank that is told of as stuck is not lost as well.
/// Returns whether it did.  Errors: FileError.
bool append_first_failure(const std::filesystem::path& run_dir, const FailureRecord& record, Index from_bytes);
/// As append_failure, on the way out with an error of its own: what cannot be written (the disk may be what failed) is said in the log, and no more.
void try_append_failure(const std::filesystem::path& run_dir, const FailureRecord& record) noexcept;

/// "lost" for a peer that is gone, "nan" or "inf" for a number, else "error".
[[nodiscard]] std::string failure_kind(const std::exception& error);

/// This machine's name.
[[nodiscard]] std::string host_name();

}  // namespace optimus
