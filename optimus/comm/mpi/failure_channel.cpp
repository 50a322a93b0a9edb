#include "optimus/comm/mpi/failure_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "optimus/base/log.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mpi/backoff.hpp"
#include "optimus/comm/mpi/handle.hpp"

namespace optimus::mpi {
namespace {

/// What travels: small enough to be sent without the receiver's help by every MPI we know.
struct Notice {
  int kind = 0, code = 1, length = 0;
  char text[2000] = {};
};
constexpr int kNoticeTag = 1;

}  // namespace

struct FailureChannel::State {
  Group group{duplicate_world(), "world"};
  Notice notice;
  MPI_Request request = MPI_REQUEST_NULL;
  detail::Failure failure;
  int failed_rank = -1;  ///< where it began

  void listen() { check(MPI_Irecv(&notice, sizeof notice, MPI_BYTE, MPI_ANY_SOURCE, kNoticeTag, group.comm(), &request), "MPI_Irecv"); }
};

FailureChannel::FailureChannel() : state_(std::make_unique<State>()) { state_->listen(); }
FailureChannel::~FailureChannel() = default;

void FailureChannel::poll() {
  State& s = *state_;
  if (s.request == MPI_REQUEST_NULL) return;
  int is_there = 0;
  MPI_Status status;
  check(MPI_Test(&s.request, &is_there, &status), "MPI_Test");
  if (is_there == 0) return;
  const auto length = static_cast<std::size_t>(std::clamp<int>(s.notice.length, 0, sizeof s.notice.text));
  if (!s.failure.failed) {
    s.failed_rank = status.MPI_SOURCE;
    s.failure = {true, s.notice.kind, s.notice.code, fmt::format("rank {}: {}", status.MPI_SOURCE, std::string_view(s.notice.text, length))};
  }
  s.listen();
}

bool FailureChannel::has_failed() const { return state_->failure.failed; }
void FailureChannel::throw_failure() const {
  try {
    detail::throw_failure(state_->failure);
  } catch (Error& error) {
    error.set_rank(state_->failed_rank);
    throw;
  }
}

void FailureChannel::announce() noexcept {
  State& s = *state_;
  try {
    poll();
    if (s.failure.failed) return;  // the others know already, from where it began
    const detail::Failure mine = detail::current_failure();
    Notice out;
    out.kind = mine.kind;
    out.code = mine.code;
    out.length = static_cast<int>(std::min(mine.message.size(), sizeof out.text));
    std::memcpy(out.text, mine.message.data(), static_cast<std::size_t>(out.length));
    std::vector<MPI_Request> requests;
    for (Index member = 0; member < s.group.size(); ++member) {
      if (member == s.group.rank()) continue;
      MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
      check(MPI_Isend(&out, sizeof out, MPI_BYTE, static_cast<int>(member), kNoticeTag, s.group.comm(), &request), "MPI_Isend");
    }
    int is_done = 0;
    for (Backoff backoff; is_done == 0 && backoff.seconds() < 2; backoff.pause())
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE), "MPI_Testall");
  } catch (const std::exception& error) {
    log_warning("[comm] the other ranks could not be told of the failure and will wait for their time limit: {}", error.what());
  }
}

bool FailureChannel::meet(double patience_s) noexcept {
  State& s = *state_;
  try {
    MPI_Request barrier = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(s.group.comm(), &barrier), "MPI_Ibarrier");
    int is_done = 0;
    for (Backoff backoff; is_done == 0 && backoff.seconds() < patience_s; backoff.pause()) {
      poll();
      check(MPI_Test(&barrier, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    return is_done != 0;
  } catch (const std::exception&) {
    return false;
  }
}

void FailureChannel::close() {
  State& s = *state_;
  if (s.request == MPI_REQUEST_NULL) return;
  check(MPI_Cancel(&s.request), "MPI_Cancel");
  check(MPI_Wait(&s.request, MPI_STATUS_IGNORE), "MPI_Wait");
}

}  // namespace optimus::mpi
