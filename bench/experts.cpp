// The experts of one layer shared by the ranks it is started with: both dispatchers against a rank that has all experts to itself and the same number of rows, the
// bytes that each moves against the formula, and how much of a slow link's time is hidden behind the computation.
//
//   mpirun -n 2 build/bench/bench_experts [rows a rank] [hidden size] [experts] [top k]

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/random.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/comm/delayed/delayed.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/model/moe/experts.hpp"
#include "timing.hpp"

namespace optimus::bench {
namespace {

struct Sizes {
  Index rows = 0, hidden = 0, experts = 0, top_k = 0;
};

/// Forward and backward of one layer in bf16, as often as asked; random rows that choose experts at random.
class Layer {
 public:
  Layer(const Sizes& sizes, Communicator* ep, const std::string& dispatcher, bool overlap)
      : shape_{.hidden_size = sizes.hidden, .intermediate_size = sizes.hidden, .num_experts = sizes.experts, .top_k = sizes.top_k},
        backend_(make_cpu_backend(1)),
        experts_(make_fast_sparse_moe()),
        dispatcher_(make_dispatcher(dispatcher, ep)),
        memory_(Index{3} << 30),
        c_{.backend = *backend_,
           .arena = memory_,
           .kept = &memory_,
           .dispatcher = *dispatcher_,
           .config = config_,
           .shape = shape_,
           .tp = nullptr,
           .ep = ep,
           .dtype = DType::kBF16,
           .wide = DType::kF32,
           .is_planning = false,
           .overlap = overlap},
        x_TD_(random("x", {sizes.rows, sizes.hidden})),
        dy_TD_(random("dy", {sizes.rows, sizes.hidden})),
        y_TD_(memory_.like(x_TD_)),
        routing_{.p_TE = {},
                 .lse_T = {},
                 .index_TK = memory_.alloc(DType::kI32, {sizes.rows, sizes.top_k}),
                 .weight_TK = memory_.alloc(DType::kF32, {sizes.rows, sizes.top_k}),
                 .statistics = {}},
        dweight_TK_(memory_.like(routing_.weight_TK)) {
    const Index e = local_experts(c_).count;
    w_ = {random("gate", {e, sizes.hidden, sizes.hidden}), random("up", {e, sizes.hidden, sizes.hidden}), random("down", {e, sizes.hidden, sizes.hidden})};
    for (View* dw : {&dw_.w_gate_eFD, &dw_.w_up_eFD, &dw_.w_down_eDF}) *dw = memory_.alloc(DType::kF32, w_.w_gate_eFD.shape());
    choose(ep == nullptr ? 0 : ep->rank());
    mark_ = memory_.used();
  }

  void step() {
    memory_.release_to(mark_);
    const ExpertsSaved saved = experts_->allocate(c_, x_TD_.size(0));
    experts_->forward(c_, w_, x_TD_, routing_, saved, y_TD_);
    experts_->backward(c_, w_, x_TD_, routing_, saved, {.dy_TD = dy_TD_, .dx_TD = y_TD_, .dweight_TK = dweight_TK_, .dw = dw_});
  }

 private:
  [[nodiscard]] View random(const char* name, const Shape& shape) {
    const RandomStream stream(1, "bench", name);
    const View view = memory_.alloc(DType::kBF16, shape);
    for (Index i = 0; i < view.count(); ++i) view.as<BFloat16>()[i] = BFloat16(0.05F * static_cast<float>(stream.uniform(i) - 0.5));
    return view;
  }
  void choose(Index rank) {
    const RandomStream stream(static_cast<std::uint64_t>(rank), "bench", "choices");
    const Index K = shape_.top_k;
    std::vector<std::int32_t> all(static_cast<std::size_t>(shape_.num_experts));
    for (Index t = 0; t < x_TD_.size(0); ++t) {
      for (std::size_t e = 0; e < all.size(); ++e) all[e] = static_cast<std::int32_t>(e);
      for (Index k = 0; k < K; ++k) {
        const auto left = static_cast<std::uint64_t>(shape_.num_experts - k);
        std::swap(all[static_cast<std::size_t>(k)], all[static_cast<std::size_t>(k) + stream.below(t * K + k, left)]);
        routing_.index_TK.as<std::int32_t>()[t * K + k] = all[static_cast<std::size_t>(k)];
        routing_.weight_TK.as<float>()[t * K + k] = 1.0F / static_cast<float>(K);
      }
    }
  }

  MoeShape shape_;
  MoeConfig config_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Experts> experts_;
  std::unique_ptr<Dispatcher> dispatcher_;
  Arena memory_;
  MoeContext c_;
  View x_TD_, dy_TD_, y_TD_;
  Routing routing_;
  View dweight_TK_;
  ExpertWeights w_, dw_;
  Index mark_ = 0;
};

double largest(Communicator& world, double value) {
  world.all_reduce({reinterpret_cast<std::byte*>(&value), DType::kF64, {1}}, Reduce::kMax);
  return value;
}

/// Of one step on the slowest rank: by the clock, and what the processor did for it. The least of many, because other programs only ever make a step slower.
struct Seconds {
  double wall = 1e30, processor = 1e30;
};
Seconds fastest_step(Communicator& world, Layer& layer, double budget_s = 1) {
  Seconds fastest;
  const Timer total;
  for (int i = 0; i < 5 || largest(world, total.seconds()) < budget_s; ++i) {
    world.barrier();
    const Timer timer;
    const double before = now_s();
    layer.step();
    const double wall = timer.seconds(), processor = now_s() - before;
    fastest.wall = std::min(fastest.wall, largest(world, wall));
    fastest.processor = std::min(fastest.processor, largest(world, processor));
  }
  return fastest;
}

/// What one rank is expected to send in a step: four directions of rows, two of choices and weights forward, one of weights' gradients back.
double formula_bytes(const Sizes& s, Index ranks, bool only_where_wanted) {
  const auto D = static_cast<double>(s.hidden), K = static_cast<double>(s.top_k), P = static_cast<double>(ranks);
  double wanted = 1;  // probability that a row has an expert on a given other rank: 1 - C(E - e, K) / C(E, K)
  for (Index k = 0; k < s.top_k && only_where_wanted; ++k)
    wanted *= static_cast<double>(s.experts - s.experts / ranks - k) / static_cast<double>(s.experts - k);
  if (only_where_wanted) wanted = 1 - wanted;
  const double counts = only_where_wanted ? 16 * (P - 1) : 0;
  return static_cast<double>(s.rows) * (P - 1) * wanted * (4 * 2 * D + 12 * K) + counts;
}

double injected_bytes(Communicator& world, const Sizes& sizes, const char* dispatcher) {
  const auto counting = make_delayed_communicator(world, [](std::string_view) { return Link{.latency_s = 0, .bytes_per_s = 1e15}; });
  Layer layer(sizes, counting.get(), dispatcher, true);
  layer.step();
  double bytes = counting->totals().front().injected_s * 1e15;
  world.all_reduce({reinterpret_cast<std::byte*>(&bytes), DType::kF64, {1}}, Reduce::kSum);
  return bytes / static_cast<double>(world.size());
}

void compare_dispatchers(Communicator& world, const Sizes& sizes) {
  Layer alone(sizes, nullptr, "", true);
  const Seconds local = fastest_step(world, alone);
  if (world.rank() == 0) fmt::print("all experts on every rank  {:7.2f} ms, processor {:7.2f} ms\n", 1e3 * local.wall, 1e3 * local.processor);
  for (const char* dispatcher : {"all_gather", "all_to_all"}) {
    Layer layer(sizes, &world, dispatcher, true);
    const Seconds shared = fastest_step(world, layer);
    const double sent = injected_bytes(world, sizes, dispatcher), formula = formula_bytes(sizes, world.size(), dispatcher == std::string("all_to_all"));
    if (world.rank() == 0)
      fmt::print("{}  {:7.2f} ms = {:.2f} of that, processor {:7.2f} ms = {:.2f};  {:.3f} MB sent by a rank, formula {:.3f}\n", dispatcher, 1e3 * shared.wall,
                 shared.wall / local.wall, 1e3 * shared.processor, shared.processor / local.processor, sent / 1e6, formula / 1e6);
  }
}

/// Over a link on which a step's bytes take `share` of the time of a step without it.
///
///   share hidden = 1 - (step over the link - step without link) / link time
void hide(Communicator& world, const Sizes& sizes, const char* dispatcher, double share) {
  Layer plain(sizes, &world, dispatcher, false);
  const double without_link = fastest_step(world, plain).wall, link = share * without_link;
  const double rate = formula_bytes(sizes, world.size(), dispatcher == std::string("all_to_all")) / link;
  const auto over_link = [&](bool overlap) {
    const auto slow = make_delayed_communicator(world, [rate](std::string_view) { return Link{.latency_s = 0, .bytes_per_s = rate}; });
    Layer layer(sizes, slow.get(), dispatcher, overlap);
    return fastest_step(world, layer).wall;
  };
  const double in_turn = over_link(false), overlapped = over_link(true);
  if (world.rank() == 0)
    fmt::print("{}  step {:6.2f} ms, link {:6.2f} ms: in turn {:6.2f} ms, {:4.0f} % hidden; overlapped {:6.2f} ms, {:4.0f} % hidden\n", dispatcher,
               1e3 * without_link, 1e3 * link, 1e3 * in_turn, 100 * (1 - (in_turn - without_link) / link), 1e3 * overlapped,
               100 * (1 - (overlapped - without_link) / link));
}

Index argument(int argc, char** argv, int i, Index otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; }

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  using namespace optimus;
  MpiEnvironment mpi;
  omp_set_num_threads(1);
  {
    const auto world = mpi.world();
    const bench::Sizes sizes{.rows = bench::argument(argc, argv, 1, 2048),
                             .hidden = bench::argument(argc, argv, 2, 512),
                             .experts = bench::argument(argc, argv, 3, 16),
                             .top_k = bench::argument(argc, argv, 4, 4)};
    if (world->rank() == 0)
      fmt::print("{} ranks of one thread, {} rows each, D = F = {}, E {}, K {}, bf16; forward and backward of one layer's experts\n", world->size(), sizes.rows,
                 sizes.hidden, sizes.experts, sizes.top_k);
    bench::compare_dispatchers(*world, sizes);
    for (const char* dispatcher : {"all_gather", "all_to_all"})
      for (const double share : {0.3, 1.0}) bench::hide(*world, sizes, dispatcher, share);
  }
  mpi.close();
}
