#pragma once
// Runs a test's own faulty program under the MPI starter. For targets that define STARTER and PROGRAM.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "optimus/base/timer.hpp"

namespace optimus::test {

/// What came of a program.
struct Outcome {
  int code = -1;       ///< exit code; -1 if a signal ended the starter
  std::string output;  ///< of all ranks, both streams
  double seconds = 0;
};

inline Outcome run_fault_program(const std::string& arguments, int ranks) {
  const Timer timer;
  Outcome outcome;
  const std::string command = std::string(STARTER) + " -n " + std::to_string(ranks) + " " PROGRAM " " + arguments + " 2>&1";
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), count);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.seconds = timer.seconds();
  return outcome;
}

}  // namespace optimus::test
