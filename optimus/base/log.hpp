#pragma once
// Log lines to standard error (and, once a run has a folder, to its log.txt). Results go to standard output, never through here.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace optimus {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Writes one line. Thread-safe.
void log_message(LogLevel level, std::string_view message);
/// Lines below `level` are dropped (default kInfo).
void set_log_level(LogLevel level);
/// Put before every line, for example "rank 3: "; empty by default.
void set_log_prefix(std::string prefix);
/// Also append every line, with the time, to this file.  Errors: FileError.
void add_log_file(const std::string& path);

template <class... Args> void log_debug(fmt::format_string<Args...> f, Args&&... args) {
  log_message(LogLevel::kDebug, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args> void log_info(fmt::format_string<Args...> f, Args&&... args) {
  log_message(LogLevel::kInfo, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args> void log_warning(fmt::format_string<Args...> f, Args&&... args) {
  log_message(LogLevel::kWarning, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args> void log_error(fmt::format_string<Args...> f, Args&&... args) {
  log_message(LogLevel::kError, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace optimus
