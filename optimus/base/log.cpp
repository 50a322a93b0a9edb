#include "optimus/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <utility>

#include "optimus/base/error.hpp"

namespace optimus {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view word_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug: ";
    case LogLevel::kInfo: return "";
    case LogLevel::kWarning: return "warning: ";
    case LogLevel::kError: return "error: ";
  }
  return "";
}

// The process has one standard error, so it has one log: the only state in the program that is not owned by somebody.
struct Log {
  Log() : terminal(std::make_shared<spdlog::sinks::stderr_color_sink_mt>()), logger("optimus", terminal) {
    terminal->set_pattern("%^%v%$");
    terminal->set_color(spdlog::level::info, "");
    logger.set_level(spdlog::level::info);
    logger.flush_on(spdlog::level::debug);
  }
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> terminal;
  spdlog::logger logger;
  std::string prefix;
  std::mutex mutex;
};

Log& the_log() {
  static Log log;
  return log;
}

}  // namespace

void log_message(LogLevel level, std::string_view message) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.logger.log(to_spdlog(level), "{}{}{}", log.prefix, word_of(level), message);
}

void set_log_level(LogLevel level) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.logger.set_level(to_spdlog(level));
}

void set_log_prefix(std::string prefix) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.prefix = std::move(prefix);
}

void add_log_file(const std::string& path) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    file->set_pattern("%Y-%m-%d %H:%M:%S.%e  %v");
    log.logger.sinks().push_back(std::move(file));
  } catch (const spdlog::spdlog_ex& e) {
    throw FileError(fmt::format("[log] cannot append to {}: {}", path, e.what()));
  }
}

}  // namespace optimus
