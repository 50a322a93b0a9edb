#include "optimus/base/timer.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "optimus/base/error.hpp"
#include "optimus/base/system_files.hpp"

namespace optimus {
namespace {

std::optional<double> parse_bytes(const std::string& text) {
  double bytes = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (code != std::errc{}) return std::nullopt;  // "max"
  return bytes;
}

// A line like "VmHWM:     1234 kB" of /proc/self/status. getrusage is not used: its peak is inherited from the process that started this one.
Index status_bytes(const std::string& key) {
  std::istringstream status(read_system_file("/proc/self/status").value_or(""));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  throw InternalError("[base] /proc/self/status has no " + key);
}

}  // namespace

Index peak_memory_bytes() { return status_bytes("VmHWM"); }
Index current_memory_bytes() { return status_bytes("VmRSS"); }

Index machine_memory_bytes() {
  const Index physical = static_cast<Index>(::sysconf(_SC_PHYS_PAGES)) * static_cast<Index>(::sysconf(_SC_PAGESIZE));
  const auto limit = control_group_limit("memory.max", parse_bytes);
  return limit ? std::min(physical, static_cast<Index>(*limit)) : physical;
}

}  // namespace optimus
