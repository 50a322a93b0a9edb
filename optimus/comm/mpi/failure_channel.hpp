#pragma once
// How a rank that cannot go on tells the others, wherever they are waiting: a communicator of its own with one receive always posted.

#include <memory>

namespace optimus::mpi {

class FailureChannel {
 public:
  FailureChannel();
  ~FailureChannel();
  FailureChannel(const FailureChannel&) = delete;
  FailureChannel& operator=(const FailureChannel&) = delete;

  /// Looks whether another rank has failed.
  void poll();
  [[nodiscard]] bool has_failed() const;
  /// Throws what the first rank heard of has announced.
  [[noreturn]] void throw_failure() const;
  /// Sends the exception being handled to all other ranks, unless it came from one of them.
  void announce() noexcept;
  /// Whether all ranks come here within `patience_s`.
  [[nodiscard]] bool meet(double patience_s) noexcept;
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optimus::mpi
