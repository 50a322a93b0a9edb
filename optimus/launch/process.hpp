#pragma once
// Child processes: started in a group of their own, ended with their parent, never waited for without a limit.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// One child in a process group of its own.
class Process {
 public:
  struct Options {
    bool capture_out = false;       ///< else it shares this process's standard output
    bool capture_err = false;       ///< the same for standard error
    int signal_on_parent_end = 15;  ///< what it gets when this process ends, however that happens
  };
  /// Starts `args[0]` (found in PATH) with the signal mask of a fresh program.  Errors: FileError if the system has no room for a process; a program that
  /// does not exist ends with 127, as in a shell.
  Process(const std::vector<std::string>& args, const Options& options);
  /// Kills the group if it still runs.
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  /// The exit code once it has ended, 128 + N after signal N.
  [[nodiscard]] std::optional<int> poll();
  /// To the child and all that it started, as long as those stay in its group.
  void signal_group(int signal) const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Ends of pipes to read from, without waiting; -1 where nothing is captured.
  [[nodiscard]] int out() const { return out_; }
  [[nodiscard]] int err() const { return err_; }
  /// Appends to `text` what has come; false at the end of the stream.
  static bool read_some(int fd, std::string& text);

 private:
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  std::optional<int> code_;
};

/// What came of a command.
struct CommandResult {
  int code = 0;
  bool is_timed_out = false;  ///< it was killed at the limit
  std::string out, err;
};

/// Runs all `commands`, `at_a_time` beside each other, each for at most `limit_s`. Results in the order of the commands.
[[nodiscard]] std::vector<CommandResult> run_commands(const std::vector<std::vector<std::string>>& commands, double limit_s, Index at_a_time = 128);

/// `words` as one line for a shell that gives them back unchanged.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

/// The full path of a program, as a shell finds it, or nothing.
[[nodiscard]] std::optional<std::string> find_program(const std::string& name);

}  // namespace optimus::launch
