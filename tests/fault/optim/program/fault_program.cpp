// Steps of an optimizer in which rank 1 throws inside one of its functions, named by the argument, while transfers are under way; ends as the real program
// would.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "optimus/backend/ref/ref_backend.hpp"
#include "optimus/comm/axis_group.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/optim/sharded_optimizer.hpp"

namespace {

using namespace optimus;

constexpr Index kLayers = 6;

void run(Communicator& world, const std::string& fault) {
  std::vector<ParamSpec> specs;
  for (Index layer = 0; layer < kLayers; ++layer) specs.push_back({.name = std::to_string(layer), .shape = {50'000}, .layer = layer});
  ShardedOptimizer::Options options;
  options.parallel.bucket_elements = 1;
  const Mesh mesh(options.parallel, world.size());
  const auto dp = make_axis_group(world, mesh, Axis::kDp), dp_ep = make_axis_group(world, mesh, Axis::kDpEp);
  const auto backend = make_ref_backend();
  ShardedOptimizer optimizer(specs, options, mesh, world.rank(), {.dp = dp.get(), .dp_ep = dp_ep.get(), .world = &world}, *backend);
  const bool is_faulty = world.rank() == 1;
  optimizer.initialize([&](const ParamSpec&, const Box&, Index, View) {
    if (is_faulty && fault == "initialize") throw CheckpointError("[test] unreadable");
  });
  for (Index step = 1; step <= 3; ++step) {
    optimizer.zero_gradients();
    for (Index layer = kLayers - 1; layer >= 0; --layer) {
      optimizer.wait_weights(layer);
      optimizer.gradients_complete(layer);
      if (is_faulty && fault == "backward" && step == 2 && layer == 2) optimizer.gradients_complete(3);
    }
    optimizer.reduce_gradients();
    (void)optimizer.update(0.1, true);
    if (is_faulty && fault == "update" && step == 2) (void)optimizer.update(0.1, true);
  }
  optimizer.wait_weights();
}

}  // namespace

int main(int, char** argv) {
  MpiEnvironment mpi;
  mpi.set_time_limit(30);
  int code = 0;
  {
    const auto world = mpi.world();
    try {
      run(*world, argv[1]);
    } catch (const Error& error) {
      world->announce_failure();
      code = static_cast<int>(error.code());
      std::fprintf(stderr, "<rank %d ends: %s>\n", static_cast<int>(world->rank()), error.what());
    }
  }
  mpi.finish(code, 2);
  return code;
}
