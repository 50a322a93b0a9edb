#include "optimus/comm/mpi/operation.hpp"

#include <algorithm>
#include <exception>

#include "optimus/comm/mpi/engine.hpp"

namespace optimus::mpi {

void Operation::complete(int slot) noexcept {
  ++num_completed_;
  try {
    on_complete(slot);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

Index Operation::post(const Transfer& transfer, int slot) {
  const Index limit = channel_.engine->tuning().message_bytes;
  Index num_messages = 0;
  for (Index begin = 0; begin == 0 || begin < transfer.bytes; begin += limit) {
    Transfer part = transfer;
    part.data = transfer.data + begin;
    part.bytes = std::min(limit, transfer.bytes - begin);
    channel_.engine->post(*this, part, slot);
    ++num_messages;
  }
  return num_messages;
}

void Operation::finish() {
  is_done_ = true;
  if (next_) next_->start();
}

}  // namespace optimus::mpi
