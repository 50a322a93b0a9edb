#include "optimus/checkpoint/problems.hpp"

#include <fmt/format.h>

namespace optimus {

std::string problem_message(const std::string& title, const std::vector<std::string>& problems) {
  if (problems.size() == 1) return fmt::format("{}: {}", title, problems.front());
  std::string message = fmt::format("{} ({} problems):", title, problems.size());
  for (const std::string& problem : problems) message += "\n  " + problem;
  return message;
}

}  // namespace optimus
