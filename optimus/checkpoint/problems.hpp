#pragma once
// Several problems in one message. Internal to this folder.

#include <string>
#include <vector>

namespace optimus {

/// "TITLE: PROBLEM", or for more than one "TITLE (N problems):" and a line for each.
[[nodiscard]] std::string problem_message(const std::string& title, const std::vector<std::string>& problems);

template <class Error> void throw_if_problems(const std::string& title, const std::vector<std::string>& problems) {
  if (!problems.empty()) throw Error(problem_message(title, problems));
}

}  // namespace optimus
