#include "optimus/pipeline/lane.hpp"

#include <fmt/format.h>

#include "optimus/base/check.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/comm/arguments.hpp"

namespace optimus::pipeline {
namespace {

constexpr Index kAlignment = 64;

Index rows_bytes(const MessageFormat& f) { return checked_mul(f.rows.count(), dtype_bytes(f.dtype)); }
/// Counts lie behind the rows.
Index counts_begin(const MessageFormat& f) { return round_up(rows_bytes(f), dtype_bytes(DType::kI64)); }
Index message_bytes(const MessageFormat& f) {
  return f.num_counts > 0 ? checked_add(counts_begin(f), checked_mul(f.num_counts, dtype_bytes(DType::kI64))) : rows_bytes(f);
}
Index stride(const MessageFormat& f) { return round_up(message_bytes(f), kAlignment); }

}  // namespace

Index Lane::bytes(const MessageFormat& format, BufferCount buffers) { return checked_mul(checked_add(buffers.receives, buffers.sends), stride(format)); }

Lane::Lane(const Schedule& schedule, Index stage, Direction direction, const MessageFormat& format, BufferCount buffers, Communicator& pp)
    : pp_(pp),
      format_(format),
      buffers_(buffers),
      routes_(stage_routes(schedule, stage, direction)),
      is_local_(schedule.stages == 1),
      tags_per_chunk_((arguments::kMaxTag + 1) / (2 * schedule.num_chunks())),
      num_chunks_(schedule.num_chunks()),
      stride_(stride(format)),
      memory_(bytes(format, buffers)),
      receives_(static_cast<std::size_t>(buffers.receives)),
      sends_(static_cast<std::size_t>(buffers.sends)) {
  if (tags_per_chunk_ < 1)
    throw ConfigError(fmt::format("[pipeline] {} × {} are more chunks than messages can name", counted(schedule.stages, "stage"),
                                  counted(schedule.virtual_stages, "virtual stage")));
  if (!is_local_) return;
  std::vector<Index> order(message_ids(schedule));
  Index n = 0;
  for (const Route& route : routes_.receives) order[route.id(schedule)] = n++;
  for (const Route& route : routes_.sends) destinations_.push_back(order[route.id(schedule)]);
}

int Lane::tag(const Route& route) const {
  const Index direction_and_chunk = (route.direction == Direction::kBackward ? num_chunks_ : 0) + route.chunk;
  // Messages of one chunk and direction are sent and taken in the order of micro-batches, so that equal tags cannot mix them up.
  return narrow<int>(direction_and_chunk * tags_per_chunk_ + route.micro_batch % tags_per_chunk_);
}

StageMessage Lane::message(std::byte* data) const {
  StageMessage result;
  result.rows = View(data, format_.dtype, format_.rows);
  if (format_.num_counts > 0) result.counts = View(data + counts_begin(format_), DType::kI64, {format_.num_counts});
  return result;
}

View Lane::raw(std::byte* data) const { return {data, DType::kU8, {message_bytes(format_)}}; }

void Lane::begin() {
  num_posted_ = num_received_ = num_sent_ = 0;
  for (Index n = 0; n < buffers_.receives; ++n) post_receive();
}

void Lane::post_receive() {
  if (num_posted_ == static_cast<Index>(routes_.receives.size())) return;
  const Index n = num_posted_++;
  if (is_local_) return;
  const Route& route = routes_.receives[static_cast<std::size_t>(n)];
  receives_[static_cast<std::size_t>(n % buffers_.receives)] = pp_.start_receive(raw(receive_buffer(n)), route.from, tag(route));
}

StageMessage Lane::receive() {
  const Index n = num_received_;
  if (!is_local_) {
    auto& request = receives_[static_cast<std::size_t>(n % buffers_.receives)];
    request->wait();
    request.reset();
  }
  return message(receive_buffer(n));
}

void Lane::release() {
  ++num_received_;
  post_receive();
}

StageMessage Lane::prepare_send() {
  if (is_local_) {
    const Index n = destinations_[static_cast<std::size_t>(num_sent_)];
    OPTIMUS_CHECK(n < num_posted_, "a message within a stage has no memory yet");
    return message(receive_buffer(n));
  }
  auto& request = sends_[static_cast<std::size_t>(num_sent_ % buffers_.sends)];
  if (request) request->wait();
  request.reset();
  return message(send_buffer(num_sent_));
}

void Lane::send(bool must_wait) {
  const Index n = num_sent_++;
  if (is_local_) return;
  const Route& route = routes_.sends[static_cast<std::size_t>(n)];
  auto& request = sends_[static_cast<std::size_t>(n % buffers_.sends)];
  request = pp_.start_send(raw(send_buffer(n)), route.to, tag(route));
  if (must_wait) request->wait();
}

void Lane::finish() {
  for (auto& request : sends_) {
    if (request) request->wait();
    request.reset();
  }
}

bool Lane::progress() {
  for (auto* requests : {&receives_, &sends_})
    for (auto& request : *requests)
      if (request) {
        (void)request->test();  // looks at all transfers of the process
        return true;
      }
  return false;
}

}  // namespace optimus::pipeline
