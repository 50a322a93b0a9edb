#include "optimus/base/system_files.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace optimus {

std::optional<std::string> read_system_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<double> control_group_limit(std::string_view name, std::optional<double> (*parse)(const std::string& text)) {
  // "0::/some/group" names the group; files of a group that a container hides are looked for in the root it shows instead.
  std::istringstream groups(read_system_file("/proc/self/cgroup").value_or(""));
  std::string group;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) group = line.substr(3);
  }
  std::optional<double> limit;
  while (true) {
    if (const auto text = read_system_file("/sys/fs/cgroup" + group + "/" + std::string(name))) {
      if (const auto value = parse(*text)) limit = std::min(limit.value_or(*value), *value);
    }
    if (group.empty()) return limit;
    group.erase(group.rfind('/'));
  }
}

}  // namespace optimus
