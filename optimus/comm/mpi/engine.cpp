#include "optimus/comm/mpi/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "optimus/base/counted.hpp"
#include "optimus/base/log.hpp"
#include "optimus/comm/mpi/backoff.hpp"
#include "optimus/comm/mpi/failure_channel.hpp"
#include "optimus/comm/mpi/handle.hpp"
#include "optimus/comm/while_set.hpp"

namespace optimus::mpi {

/// What is known of one message; its MPI_Request has the same place in `requests`.
struct Message {
  Operation* owner = nullptr;
  Index bytes = 0;
  Index member = 0;
  int slot = 0;
  bool is_send = false;
};

struct Engine::State {
  MpiTuning tuning;
  double time_limit_s = 0;
  double patience_s = 0.3;  ///< left for transfers that are given up after a failure: for all of them together, as others wait to be told of it
  std::string context;
  std::vector<MPI_Request> requests;
  std::vector<Message> messages;
  // Kept between calls of poll() only so that it need not allocate.
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
  std::vector<Message> completed;
  std::vector<Buffer> spare_buffers;
  Index num_borrowed = 0;
  std::vector<Progress*> progresses;
  bool is_advancing = false;
  FailureChannel failures;
  bool is_broken = false;

  [[nodiscard]] std::string place() const { return context.empty() ? "" : " at " + context; }
  void erase(std::size_t i) {
    requests[i] = requests.back();
    messages[i] = messages.back();
    requests.pop_back();
    messages.pop_back();
  }
};

Engine::Engine(double time_limit_s) : state_(std::make_unique<State>()) { set_time_limit(time_limit_s); }
Engine::~Engine() = default;

const MpiTuning& Engine::tuning() const { return state_->tuning; }
void Engine::set_tuning(const MpiTuning& tuning) { state_->tuning = tuning; }
void Engine::set_time_limit(double seconds) { state_->time_limit_s = seconds; }
double Engine::time_limit() const { return state_->time_limit_s; }
void Engine::set_context(std::string context) { state_->context = std::move(context); }
const std::string& Engine::context() const { return state_->context; }
bool Engine::has_messages() const { return !state_->messages.empty(); }

void Engine::post(Operation& owner, const Transfer& transfer, int slot) {
  const Channel& channel = owner.channel();
  const int bytes = narrow<int>(transfer.bytes), member = narrow<int>(transfer.member);
  MPI_Request request = MPI_REQUEST_NULL;
  if (transfer.is_send) check(MPI_Isend(transfer.data, bytes, MPI_BYTE, member, channel.tag, channel.group->comm(), &request), "MPI_Isend");
  else check(MPI_Irecv(transfer.data, bytes, MPI_BYTE, member, channel.tag, channel.group->comm(), &request), "MPI_Irecv");
  state_->requests.push_back(request);
  state_->messages.push_back({&owner, transfer.bytes, transfer.member, slot, transfer.is_send});
}

namespace {

/// Fails the owner if the message did not arrive whole.
void check_message(const Message& message, const MPI_Status& status, int code) {
  if (code != MPI_SUCCESS) {
    message.owner->fail(fmt::format("the message {} {} failed: {}", message.is_send ? "to" : "from",
                                    message.owner->channel().group->describe_member(message.member), error_text(code)));
    return;
  }
  if (message.is_send) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != message.bytes)
    message.owner->fail(fmt::format("{} sent {}, {} were expected; the members disagree about sizes",
                                    message.owner->channel().group->describe_member(message.member), counted(bytes, "byte"), message.bytes));
}

}  // namespace

void Engine::add_progress(Progress& progress) { state_->progresses.push_back(&progress); }
void Engine::remove_progress(Progress& progress) noexcept { std::erase(state_->progresses, &progress); }

void Engine::poll() {
  poll_messages();
  State& s = *state_;
  if (s.is_advancing) return;  // what advances polls too
  const WhileSet advancing(s.is_advancing);
  for (Progress* progress : s.progresses) progress->advance();
}

void Engine::poll_messages() {
  State& s = *state_;
  s.failures.poll();
  if (s.requests.empty()) return;
  s.indices.resize(s.requests.size());
  s.statuses.resize(s.requests.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(s.requests.size()), s.requests.data(), &count, s.indices.data(), s.statuses.data());
  if (code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return;

  s.completed.clear();
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(s.indices[static_cast<std::size_t>(i)]);
    const MPI_Status& status = s.statuses[static_cast<std::size_t>(i)];
    check_message(s.messages[index], status, code == MPI_ERR_IN_STATUS ? status.MPI_ERROR : MPI_SUCCESS);
    s.completed.push_back(s.messages[index]);
  }
  // From the back, so that the places still to be erased stay valid.
  std::sort(s.indices.begin(), s.indices.begin() + count, std::greater<>());
  for (int i = 0; i < count; ++i) s.erase(static_cast<std::size_t>(s.indices[static_cast<std::size_t>(i)]));
  for (const Message& message : s.completed) message.owner->complete(message.slot);
}

void Engine::throw_if_failed(const Operation& operation, const std::string& collective) {
  if (!operation.error().empty()) {
    state_->is_broken = true;
    throw CommError(fmt::format("[comm] {} over {}{}: {}", collective, operation.channel().group->name(), state_->place(), operation.error()));
  }
  if (!operation.is_done() && state_->failures.has_failed()) {
    state_->is_broken = true;
    state_->failures.throw_failure();
  }
}

void Engine::throw_late(const Operation& operation, const std::string& collective, double seconds) {
  const Group& group = *operation.channel().group;
  std::set<Index> silent, deaf;
  for (const Message& message : state_->messages)
    if (operation.contains(message.owner)) (message.is_send ? deaf : silent).insert(message.member);
  std::string who;
  for (const Index member : silent.empty() ? deaf : silent) who += (who.empty() ? "" : ", ") + group.describe_member(member);
  state_->is_broken = true;
  throw CommError(fmt::format("[comm] {} over {} ({}){}: no progress for {:.3g} s, {} {}; that rank is stuck, gone or elsewhere in the program", collective,
                              group.name(), counted(group.size(), "member"), state_->place(), seconds,
                              silent.empty() ? "nothing is taken by" : "nothing came from", who));
}

bool Engine::test(Operation& operation, const std::string& collective) {
  if (!operation.is_done()) poll();
  throw_if_failed(operation, collective);
  return operation.is_done();
}

void Engine::wait(Operation& operation, const std::string& collective) {
  Backoff backoff;
  for (Index seen = -1; !test(operation, collective);) {
    if (operation.num_completed() != seen) {
      seen = operation.num_completed();
      backoff.restart();
    }
    backoff.pause();
    if (backoff.seconds() > state_->time_limit_s) throw_late(operation, collective, backoff.seconds());
  }
}

void Engine::abandon(Operation& operation) noexcept {
  State& s = *state_;
  const auto is_under_way = [&] { return std::any_of(s.messages.begin(), s.messages.end(), [&](const Message& m) { return operation.contains(m.owner); }); };
  const auto poll_for = [&](double seconds) {
    Backoff backoff;
    for (; is_under_way() && backoff.seconds() < seconds; backoff.pause()) poll();
    return backoff.seconds();
  };
  try {
    if (!s.is_broken) (void)poll_for(1.0);
    if (!is_under_way()) return;
    s.is_broken = true;
    for (std::size_t i = 0; i < s.messages.size(); ++i)
      if (operation.contains(s.messages[i].owner) && !s.messages[i].is_send) MPI_Cancel(&s.requests[i]);
    poll();  // in any case: a cancelled receive that met no message is done then
    s.patience_s = std::max(0.0, s.patience_s - poll_for(s.patience_s));
  } catch (const std::exception& error) {
    log_debug("while giving up a transfer: {}", error.what());  // the error that led here is the one to report
  }
  for (std::size_t i = s.messages.size(); i-- > 0;) {
    if (!operation.contains(s.messages[i].owner)) continue;
    MPI_Request_free(&s.requests[i]);
    s.erase(i);
  }
}

void Engine::announce_failure() noexcept { state_->failures.announce(); }
bool Engine::meet(double patience_s) noexcept { return state_->failures.meet(patience_s); }
void Engine::stop_listening() { state_->failures.close(); }

Staging::Staging(Engine& engine, Index bytes) : engine_(engine) {
  auto& spare = engine.state_->spare_buffers;
  // Room for all that will come back: giving back cannot fail.
  spare.reserve(spare.size() + static_cast<std::size_t>(++engine.state_->num_borrowed));
  // The smallest that is large enough.
  auto found = spare.end();
  for (auto buffer = spare.begin(); buffer != spare.end(); ++buffer)
    if (buffer->bytes() >= bytes && (found == spare.end() || buffer->bytes() < found->bytes())) found = buffer;
  if (found == spare.end()) {
    buffer_ = Buffer(bytes);
    return;
  }
  buffer_ = std::move(*found);
  spare.erase(found);
}

Staging::~Staging() {
  --engine_.state_->num_borrowed;
  engine_.state_->spare_buffers.push_back(std::move(buffer_));
}

}  // namespace optimus::mpi
