#pragma once
// Signals that ask the run to save and end.

#include <optional>
#include <string>
#include <vector>

namespace optimus {

/// The number of "SIGTERM", "SIGUSR1", …, if it is one that a run may wait for.
[[nodiscard]] std::optional<int> parse_signal(const std::string& name);
/// Those names, with commas.
[[nodiscard]] std::string signal_names();

/// While it lives, the signals in `names` are noted instead of ending the process. The second one of a kind has its usual effect: it ends the process at once.
/// At most one object at a time.
class SignalWatch {
 public:
  explicit SignalWatch(const std::vector<std::string>& names);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  /// The last signal noted, or 0.
  [[nodiscard]] static int received();

 private:
  std::vector<int> numbers_;
};

}  // namespace optimus
