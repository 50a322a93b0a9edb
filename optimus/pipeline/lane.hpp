#pragma once
// The messages of one stage in one direction: their memory, and the transfers under way. Private to this folder.

#include <memory>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/pipeline/buffer_plan.hpp"
#include "optimus/pipeline/stage_work.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus::pipeline {

/// Calls come in the order of the stage's actions: begin, then for each action receive, prepare_send, (the work,) release, send, as far as it has messages; finish.
class Lane {
 public:
  Lane(const Schedule& schedule, Index stage, Direction direction, const MessageFormat& format, BufferCount buffers, Communicator& pp);

  /// Posts the first receives.
  void begin();
  /// Waits for the next message. It stays until release().
  [[nodiscard]] StageMessage receive();
  void release();
  /// Memory for the next message to send, once the transfer that used it is done.
  [[nodiscard]] StageMessage prepare_send();
  void send(bool must_wait);
  /// Waits for all sends.
  void finish();
  /// Lets transfers move.  Returns whether there was one.
  bool progress();

  [[nodiscard]] static Index bytes(const MessageFormat& format, BufferCount buffers);

 private:
  [[nodiscard]] std::byte* receive_buffer(Index n) const { return memory_.data() + n % buffers_.receives * stride_; }
  [[nodiscard]] std::byte* send_buffer(Index n) const { return memory_.data() + (buffers_.receives + n % buffers_.sends) * stride_; }
  [[nodiscard]] StageMessage message(std::byte* data) const;
  [[nodiscard]] View raw(std::byte* data) const;
  [[nodiscard]] int tag(const Route& route) const;
  void post_receive();

  Communicator& pp_;
  MessageFormat format_;
  BufferCount buffers_;
  StageRoutes routes_;
  bool is_local_;
  Index tags_per_chunk_, num_chunks_;
  std::vector<Index> destinations_;  ///< of messages within the stage: [send] place among the receives
  Index stride_;
  Buffer memory_;
  // After the memory they use, so that they end before it.
  std::vector<std::unique_ptr<Request>> receives_, sends_;  ///< [buffer]
  Index num_posted_ = 0, num_received_ = 0, num_sent_ = 0;
};

}  // namespace optimus::pipeline
