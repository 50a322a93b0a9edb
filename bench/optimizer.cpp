// The optimizer's phase of a step, on the ranks it is started with: states divided over whole replica groups (epso) against DP alone (so), all parameters
// of a model whose experts are a small part. And what looking for NaN and Inf adds.
//
//   mpirun -n 4 build/bench/bench_optimizer [ep] [hidden size]

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/comm/axis_group.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/optim/sharded_optimizer.hpp"

namespace optimus::bench {
namespace {

struct Sizes {
  Index common = 0, experts = 0;  ///< parameters
};

/// Attention of full size beside experts that are half as many parameters in all.
std::vector<ParamSpec> light_experts(Index hidden, Index layers) {
  std::vector<ParamSpec> specs;
  for (Index layer = 0; layer < layers; ++layer) {
    const std::string prefix = std::to_string(layer) + ".";
    specs.push_back({.name = prefix + "attention", .shape = {4 * hidden, hidden}, .layer = layer});
    specs.push_back({.name = prefix + "experts.{}", .shape = {8, hidden / 4, hidden}, .is_expert = true, .layer = layer});
  }
  return specs;
}

Sizes count(const std::vector<ParamSpec>& specs) {
  Sizes sizes;
  for (const ParamSpec& spec : specs) (spec.is_expert ? sizes.experts : sizes.common) += spec.shape.count();
  return sizes;
}

struct Times {
  double reduce = 1e30, update = 1e30, check = 1e30;
};

/// Fastest of `steps` steps on the slowest rank.
class Bench {
 public:
  Bench(Communicator& world, Index ep, std::vector<ParamSpec> specs) : world_(world), specs_(std::move(specs)), backend_(make_cpu_backend(1)) {
    options_.parallel.ep = ep;
    options_.parallel.bucket_elements = Index{1} << 20;
    mesh_ = Mesh(options_.parallel, world.size());
    dp_ = make_axis_group(world, mesh_, Axis::kDp);
    dp_ep_ = make_axis_group(world, mesh_, Axis::kDpEp);
    ep_ = make_axis_group(world, mesh_, Axis::kEp);
  }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }

  Times run(const std::string& sharding, int steps, Index& state_bytes) {
    options_.parallel.optimizer_sharding = sharding;
    ShardedOptimizer optimizer(specs_, options_, mesh_, world_.rank(), {.dp = dp_.get(), .dp_ep = dp_ep_.get(), .world = &world_, .ep = ep_.get()}, *backend_);
    optimizer.initialize([](const ParamSpec&, const Box&, Index, View out) { std::fill_n(out.as<float>(), out.count(), 0.01F); });
    const auto bytes = optimizer.bytes();
    state_bytes = bytes.master + bytes.moments;
    Times best;
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_gradients();
      for (const View& gradient : optimizer.gradients()) std::fill_n(gradient.as<float>(), gradient.count(), 1e-3F);
      best.check = std::min(best.check, slowest([&] { (void)optimizer.find_nonfinite_gradient(); }));
      best.reduce = std::min(best.reduce, slowest([&] { optimizer.reduce_gradients(); }));
      best.update = std::min(best.update, slowest([&] {
                               (void)optimizer.update(1e-3, true);
                               optimizer.wait_weights();
                             }));
    }
    return best;
  }

 private:
  template <class Action> double slowest(Action&& action) {
    world_.barrier();
    const Timer timer;
    action();
    double seconds = timer.seconds();
    world_.all_reduce(View(reinterpret_cast<std::byte*>(&seconds), DType::kF64, {1}), Reduce::kMax);
    return seconds;
  }

  Communicator& world_;
  std::vector<ParamSpec> specs_;
  std::unique_ptr<Backend> backend_;
  ShardedOptimizer::Options options_;
  Mesh mesh_;
  std::unique_ptr<Communicator> dp_, dp_ep_, ep_;
};

void print(Bench& bench, const Sizes& sizes, Index rank) {
  const Index dp = bench.mesh().dp(), ep = bench.mesh().ep();
  double phase[2];
  int i = 0;
  for (const char* sharding : {"so", "epso"}) {
    Index state_bytes = 0;
    const Times t = bench.run(sharding, 7, state_bytes);
    phase[i++] = t.reduce + t.update;
    const Index formula = 12 * (sizes.common / (sharding == std::string("so") ? dp : dp * ep) + sizes.experts / (ep * dp));
    if (rank == 0)
      fmt::print("{:<5} reduce {:7.2f} ms  update {:7.2f} ms  together {:7.2f} ms   looking for NaN {:6.2f} ms   states {} bytes a rank, formula {}\n",
                 sharding, 1e3 * t.reduce, 1e3 * t.update, 1e3 * phase[i - 1], 1e3 * t.check, state_bytes, formula);
  }
  if (rank == 0) fmt::print("so / epso {:.2f}\n", phase[0] / phase[1]);
}

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  using namespace optimus;
  MpiEnvironment mpi;
  omp_set_num_threads(1);
  {
    const auto world = mpi.world();
    const Index ep = argc > 1 ? std::atoll(argv[1]) : world->size(), hidden = argc > 2 ? std::atoll(argv[2]) : 512;
    const auto specs = bench::light_experts(hidden, 8);
    const bench::Sizes sizes = bench::count(specs);
    if (world->rank() == 0)
      fmt::print("{} ranks, ep {}, {} parameters, {} of them in experts\n", world->size(), ep, sizes.common + sizes.experts, sizes.experts);
    bench::Bench bench(*world, ep, specs);
    print(bench, sizes, world->rank());
  }
  mpi.close();
}
