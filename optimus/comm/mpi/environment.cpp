#include "optimus/comm/mpi/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "optimus/base/check.hpp"
#include "optimus/base/log.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/comm/mpi/engine.hpp"
#include "optimus/comm/mpi/handle.hpp"
#include "optimus/comm/mpi/mpi_communicator.hpp"

namespace optimus {
namespace {

/// The number of ranks that the starter announced in the environment; 0 if it did not.
int announced_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

/// MPICH's mpiexec ends with the code of whichever rank it sees end first, one that it killed itself too. It is told ours in its own words (the abort of PMI-1);
/// MPI_Abort is not allowed before MPI has started, nor beside its end.
void tell_hydra(int code) {
  const char* socket = std::getenv("PMI_FD");
  if (socket == nullptr) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it passes on what was said first: from then on it does not
  ::dprintf(std::atoi(socket), "cmd=abort exitcode=%d\n", code);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // and ends us; were we quicker, it might look at our end before it reads
}

/// Calls what waits for all ranks and cannot be asked to throw. If that takes longer than `limit_s`, says `late` and ends the process as one that lost a rank.
template <class Call> void call_within(double limit_s, const char* late, Call call) {
  std::promise<void> done;
  std::thread guard([limit_s, late, is_done = done.get_future()] {
    if (is_done.wait_for(waiting_time(limit_s)) == std::future_status::ready) return;
    log_error("[comm] {} within {} s", late, limit_s);
    tell_hydra(static_cast<int>(ExitCode::kLostRank));
    std::_Exit(static_cast<int>(ExitCode::kLostRank));
  });
  call();
  done.set_value();
  guard.join();
}

void start_mpi(double limit_s) {
  int provided = 0, code = MPI_SUCCESS;
  call_within(limit_s, "the start of MPI: a rank, a node or the network between two is stuck or gone; not all ranks have come to it",
              [&] { code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided); });
  mpi::check(code, "MPI_Init_thread");
  mpi::check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int size = 1;
  mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const int announced = announced_ranks();
  if (announced > 0 && announced != size)
    throw CommError(
        fmt::format("[comm] the starter announced {} ranks, the MPI library of this program finds {}; start it with the mpirun of the MPI it was built with",
                    announced, size));
}

void finalize(double limit_s) {
  int code = MPI_SUCCESS;
  call_within(limit_s, "the end of MPI: one rank is stuck or gone, this one had done its work; not all ranks have come to it", [&] { code = MPI_Finalize(); });
  mpi::check(code, "MPI_Finalize");
}

}  // namespace

struct MpiEnvironment::State {
  explicit State(double limit_s) : engine(limit_s) {}
  mpi::Engine engine;
};

bool MpiEnvironment::is_started_by_mpi() {
  constexpr std::array kSigns = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS"};
  return std::any_of(kSigns.begin(), kSigns.end(), [](const char* name) { return std::getenv(name) != nullptr; });
}

MpiEnvironment::MpiEnvironment(double limit_s) {
  start_mpi(limit_s);
  state_ = std::make_unique<State>(limit_s);
}

MpiEnvironment::~MpiEnvironment() = default;

std::unique_ptr<Communicator> MpiEnvironment::world() {
  return std::make_unique<mpi::MpiCommunicator>(state_->engine, std::make_unique<mpi::Group>(mpi::duplicate_world(), "world"));
}

void MpiEnvironment::set_time_limit(double seconds) { state_->engine.set_time_limit(seconds); }

void MpiEnvironment::set_tuning(const MpiTuning& tuning) {
  if (tuning.message_bytes < 1 || tuning.message_bytes > (Index{1} << 30) || tuning.staging_bytes < 1 || tuning.peers_per_round < 1)
    throw ConfigError("[comm] message size must be 1 … 2^30 bytes, staging memory and peers per round at least 1");
  state_->engine.set_tuning(tuning);
}

std::string MpiEnvironment::library() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  mpi::check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find('\n'));
}

void MpiEnvironment::close() {
  OPTIMUS_CHECK(!state_->engine.has_messages(), "transfers are still under way at the end of MPI");
  state_->engine.stop_listening();
  const double limit_s = state_->engine.time_limit();
  state_.reset();
  finalize(limit_s);
}

void MpiEnvironment::finish(int code, double patience_s) {
  if (state_->engine.has_messages() || !state_->engine.meet(patience_s)) abort(code);
  close();
}

void MpiEnvironment::abort(int code) {
  // Open MPI's mpirun ends the others for a code that is not 0 as it does for MPI_Abort. That sends it a help text first, over which it may break itself while
  // it ends ranks (4.1: a SIGSEGV in orte_rml_oob_send_buffer_nb under pmix_server_log_fn), and then its exit code is not ours.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) {
    // MPICH waits for its mpiexec to answer, which on a node that is cut off it never does.
    std::thread([code] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      std::_Exit(code);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  std::_Exit(code);
}

}  // namespace optimus
