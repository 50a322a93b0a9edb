#pragma once
// The processors that this process may use.

#include <string>

#include "optimus/base/index.hpp"

namespace optimus {

/// Threads worth starting: processors of the affinity mask, or the control group's CPU quota (rounded up) if that is less. At least 1. Cheap.
[[nodiscard]] Index usable_threads();

/// What the log says about the machine, and what a thread count should follow from.
struct Topology {
  Index usable_threads = 1;  ///< as above
  Index usable_cores = 1;    ///< physical cores of the affinity mask, or usable_threads if that is less
  Index cores = 1;           ///< of the whole machine, and so on:
  Index threads = 1;
  Index sockets = 1;
  Index numa_nodes = 1;
  std::string processor;  ///< the vendor's name of it, empty if unknown
  std::string bound_to;   ///< logical processors of the affinity mask as a list, "0-3,8"; empty if that is all of them

  /// One line: "2 of 2 cores (Intel Xeon …, 1 socket, 1 NUMA node), not pinned".
  [[nodiscard]] std::string str() const;
};

/// Asks the system (some milliseconds).  Errors: DeviceError if it does not answer.
[[nodiscard]] Topology read_topology();

}  // namespace optimus
