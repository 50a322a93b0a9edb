#pragma once
// Every message under way in this process, and the waiting for them. The only code that posts, tests and cancels.

#include <memory>
#include <string>

#include "optimus/comm/mpi/environment.hpp"
#include "optimus/comm/mpi/operation.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {
class Progress;
}

namespace optimus::mpi {

class Engine;

/// Memory borrowed from the engine's store and given back at the end: after the first steps nothing is allocated any more.
class Staging {
 public:
  Staging(Engine& engine, Index bytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  [[nodiscard]] std::byte* data() const { return buffer_.data(); }

 private:
  Engine& engine_;
  Buffer buffer_;
};

class Engine {
 public:
  explicit Engine(double time_limit_s);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const MpiTuning& tuning() const;
  void set_tuning(const MpiTuning& tuning);
  void set_time_limit(double seconds);
  [[nodiscard]] double time_limit() const;
  void set_context(std::string context);
  [[nodiscard]] const std::string& context() const;

  void post(Operation& owner, const Transfer& transfer, int slot);
  /// Looks once at everything under way and tells the owners what is done, then lets the progresses advance.
  void poll();
  void add_progress(Progress& progress);
  void remove_progress(Progress& progress) noexcept;
  /// Polls until `operation` is done.  Errors: CommError with its own error or, after the time limit without progress, with the members it
  /// waits for; whatever another rank has announced.
  void wait(Operation& operation, const std::string& collective);
  /// One poll.  Returns whether it is done.  Errors: as wait(), except for the time limit.
  [[nodiscard]] bool test(Operation& operation, const std::string& collective);
  /// Forgets an operation that nobody waits for any more. It gets a moment to end properly; then its messages are cancelled.
  void abandon(Operation& operation) noexcept;
  [[nodiscard]] bool has_messages() const;

  /// Sends the error being handled to all ranks.
  void announce_failure() noexcept;
  /// Waits until all ranks are here.  Returns false if they did not come in time.
  [[nodiscard]] bool meet(double patience_s) noexcept;
  /// Cancels what MPI would wait for at the end.
  void stop_listening();

 private:
  friend class Staging;
  struct State;
  void poll_messages();
  void throw_if_failed(const Operation& operation, const std::string& collective);
  [[noreturn]] void throw_late(const Operation& operation, const std::string& collective, double seconds);
  std::unique_ptr<State> state_;
};

}  // namespace optimus::mpi
