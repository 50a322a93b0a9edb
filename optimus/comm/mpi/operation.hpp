#pragma once
// A collective or transfer under way, as a state machine: it posts messages, is told when each is done, and posts the next.

#include <cstddef>
#include <memory>
#include <string>

#include "optimus/base/index.hpp"

namespace optimus::mpi {

class Engine;
class Group;

/// Bytes to or from one member. Nothing writes through `data` of a send.
struct Transfer {
  std::byte* data = nullptr;
  Index bytes = 0;
  Index member = 0;
  bool is_send = false;
};

/// Where the messages of one operation go. Operations of one group have different tags, so that they never mix.
struct Channel {
  Engine* engine = nullptr;
  const Group* group = nullptr;
  int tag = 0;
};

class Operation {
 public:
  explicit Operation(Channel channel) : channel_(channel) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  virtual void start() = 0;
  /// One of the messages posted with `slot` is done.
  virtual void on_complete(int slot) = 0;

  /// `next` starts when this one is done, and then counts as part of it.
  void then(std::unique_ptr<Operation> next) { next_ = std::move(next); }
  [[nodiscard]] bool is_done() const { return is_done_ && (!next_ || next_->is_done()); }
  [[nodiscard]] const std::string& error() const { return error_.empty() && next_ ? next_->error() : error_; }
  [[nodiscard]] Index num_completed() const { return num_completed_ + (next_ ? next_->num_completed() : 0); }
  [[nodiscard]] bool contains(const Operation* other) const { return other == this || (next_ && next_->contains(other)); }
  [[nodiscard]] const Channel& channel() const { return channel_; }

  // For the engine.
  void complete(int slot) noexcept;
  void fail(std::string error) { error_ = std::move(error); }

 protected:
  /// Hands the transfer to the engine, in as many messages as its length needs.  Returns their number: on_complete() is called for each.
  Index post(const Transfer& transfer, int slot);
  /// The operation is done; its successor starts.
  void finish();

 private:
  Channel channel_;
  std::unique_ptr<Operation> next_;
  std::string error_;
  Index num_completed_ = 0;
  bool is_done_ = false;
};

}  // namespace optimus::mpi
