// A run of a few ranks in which rank 1 goes wrong in a way that the argument names; ends as the real program would.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/comm/mpi/environment.hpp"

namespace {

using namespace optimus;

[[noreturn]] void hang() {
  while (true) pause();
}

/// Before MPI can be asked.
bool is_started_as_second() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "1";
  return false;
}

/// What every rank does in a step; rank 1 leaves it half way.
void step(Communicator& world, const std::string& fault) {
  std::vector<float> gradients(100'000, 1.0F), part(gradients.size() / static_cast<std::size_t>(world.size()));
  const View whole(reinterpret_cast<std::byte*>(gradients.data()), DType::kF32, {static_cast<Index>(part.size()) * world.size()});
  const View mine(reinterpret_cast<std::byte*>(part.data()), DType::kF32, {static_cast<Index>(part.size())});
  auto first = world.start_reduce_scatter(whole, mine);
  if (world.rank() == 1) {
    if (fault == "throw") throw DataError("[data] shard 7 is torn");
    if (fault == "die") std::raise(SIGKILL);
    if (fault == "hang") hang();
    if (fault == "throw_all") throw NumericError("one of several");
  }
  if (fault == "throw_all") throw NumericError("one of several");
  first->wait();
  world.barrier();
}

}  // namespace

int main(int, char** argv) {
  const std::string fault = argv[1];
  if (fault == "hang_at_start" && is_started_as_second()) hang();
  MpiEnvironment mpi(fault == "hang_at_start" ? 2 : 600);
  mpi.set_time_limit(fault.starts_with("hang") ? 0.5 : 30);
  int code = 0;
  bool is_second = false;
  {
    const auto world = mpi.world();
    world->set_context("step 3");
    is_second = world->rank() == 1;
    try {
      step(*world, fault);
    } catch (const Error& error) {
      world->announce_failure();
      code = static_cast<int>(error.code());
      std::fprintf(stderr, "<rank %d ends with %d: %s>\n", static_cast<int>(world->rank()), code, error.what());
    }
  }
  if (fault == "hang_at_end") {
    if (is_second) hang();
    mpi.close();
    return code;
  }
  mpi.finish(code, 2);
  return code;
}
