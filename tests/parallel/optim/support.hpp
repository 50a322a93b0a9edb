#pragma once
// A small model's optimizer on the ranks of this program, in any layout, and an independent optimizer in double to compare with.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "optimus/backend/ref/ref_backend.hpp"
#include "optimus/comm/axis_group.hpp"
#include "optimus/comm/placement.hpp"
#include "optimus/optim/sharded_optimizer.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {

/// Odd and prime sizes, and parameters with fewer elements than there are ranks. Each is a layer of its own.
inline std::vector<ParamSpec> odd_specs() {
  return {{.name = "embed", .shape = {13, 8}, .layer = -1},
          {.name = "gain", .shape = {1}, .init = Init::kOnes, .layer = 0},
          {.name = "experts.{}.up", .shape = {6, 5, 7}, .is_expert = true, .layer = 1},
          {.name = "bias", .shape = {2}, .layer = 2},
          {.name = "head", .shape = {17, 19}, .layer = 3}};
}

/// Four layers with all that a layout can do to a parameter: cut unevenly, cut between heads, too few heads, cut inside, experts, not cut at all.
inline std::vector<ParamSpec> model_specs() {
  std::vector<ParamSpec> specs = {{.name = "embed", .shape = {13, 8}, .tp_dim = 0, .is_tp_uneven = true, .layer = -1}};
  for (Index layer = 0; layer < 4; ++layer) {
    const std::string prefix = std::to_string(layer) + ".";
    specs.push_back({.name = prefix + "norm", .shape = {7}, .init = Init::kOnes, .layer = layer});
    specs.push_back({.name = prefix + "q", .shape = {12, 5}, .tp_dim = 0, .tp_heads = 4, .layer = layer});
    specs.push_back({.name = prefix + "k", .shape = {6, 5}, .tp_dim = 0, .tp_heads = 2, .layer = layer});
    specs.push_back({.name = prefix + "o", .shape = {5, 12}, .tp_dim = 1, .tp_heads = 4, .layer = layer});
    specs.push_back({.name = prefix + "router", .shape = {4, 5}, .layer = layer});
    specs.push_back({.name = prefix + "experts.{}.down", .shape = {4, 3, 8}, .tp_dim = 2, .is_expert = true, .layer = layer});
  }
  specs.push_back({.name = "last", .shape = {7}, .init = Init::kOnes, .layer = 4});
  return specs;
}

/// The parameters of a pipeline stage. With several stages the embedding is the head too, on the last one.
inline std::vector<ParamSpec> stage_specs(const std::vector<ParamSpec>& all, Index stages, Index stage) {
  std::vector<ParamSpec> specs;
  for (const ParamSpec& spec : all) {
    const Index at = std::min(stages - 1, std::max<Index>(0, spec.layer) * stages / 4);
    if (at == stage) specs.push_back(spec);
  }
  if (stages == 1) return specs;
  if (stage == stages - 1) {
    specs.push_back(all.front());
    specs.back().layer = all.back().layer;
  }
  for (ParamSpec& spec : specs) spec.is_tied = spec.name == all.front().name;
  return specs;
}

/// A number between -1 and 1 that differs with everything.
inline double number(std::string_view name, Index i, Index step) {
  const double x =
      std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(name.size()) + 2.1 * static_cast<double>(step) + static_cast<double>(name[0]));
  return x * (i % 5 == 0 ? 1e-3 : 1.0);
}

/// Index in the whole parameter of element `i` of a box, both flattened.
inline Index global_index(const Shape& shape, const Box& box, Index i) {
  Index at = 0;
  for (int d = 0; d < shape.ndim(); ++d) {
    const Index below = box.shape.count_from(d + 1);
    at = at * shape[d] + box.begin[d] + i / below % box.shape[d];
  }
  return at;
}

/// Groups of this program's ranks for a mesh, all owned.
struct Groups {
  explicit Groups(const Mesh& mesh, Communicator& ranks = test::world()) : world(ranks) {
    for (const Axis axis : {Axis::kDp, Axis::kEp, Axis::kDpEp, Axis::kEpTp, Axis::kDpEpTp}) by_axis[axis] = make_axis_group(world, mesh, axis);
    const Index stage = mesh.coordinates(world.rank()).pp, last = mesh.pp() - 1;
    if (last == 0 || (stage != 0 && stage != last)) return;
    const std::array members = {mesh.member_rank(world.rank(), Axis::kPp, 0), mesh.member_rank(world.rank(), Axis::kPp, last)};
    tied = world.subgroup(members, "tied");
  }
  [[nodiscard]] ReplicaGroups view() const {
    return {.dp = by_axis.at(Axis::kDp).get(),
            .dp_ep = by_axis.at(Axis::kDpEp).get(),
            .world = &world,
            .ep = by_axis.at(Axis::kEp).get(),
            .dp_ep_tp = by_axis.at(Axis::kDpEpTp).get(),
            .ep_tp = by_axis.at(Axis::kEpTp).get(),
            .tied = tied.get()};
  }
  Communicator& world;
  std::map<Axis, std::unique_ptr<Communicator>> by_axis;
  std::unique_ptr<Communicator> tied;
};

/// An optimizer over all ranks of this program, started from number(name, i, 0).
struct Fixture {
  Fixture(const std::vector<ParamSpec>& all, const ShardedOptimizer::Options& options, std::shared_ptr<Groups> g)
      : mesh(options.parallel, world().size()),
        specs(stage_specs(all, mesh.pp(), mesh.coordinates(world().rank()).pp)),
        groups(std::move(g)),
        backend(make_ref_backend()),
        optimizer(specs, options, mesh, world().rank(), groups->view(), *backend) {
    optimizer.initialize(start);
  }
  /// With groups of its own, made from `ranks`.
  Fixture(const std::vector<ParamSpec>& all, const ShardedOptimizer::Options& options, Communicator& ranks = world())
      : Fixture(all, options, std::make_shared<Groups>(Mesh(options.parallel, ranks.size()), ranks)) {}
  static void start(const ParamSpec& spec, const Box& box, Index flat_begin, View out) {
    for (Index i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>(number(spec.name, global_index(spec.shape, box, flat_begin + i), 0));
  }
  [[nodiscard]] Box box(std::size_t s) const { return local_box(specs[s], mesh, world().rank()); }
  /// Index in the whole parameter of the element `i` of the part that this rank holds.
  [[nodiscard]] Index global(std::size_t s, Index i) const { return global_index(specs[s].shape, box(s), i); }
  /// Index in `specs`; only for parameters of this rank.
  [[nodiscard]] std::size_t find(const std::string& name) const {
    for (std::size_t s = 0; s < specs.size(); ++s)
      if (specs[s].name == name) return s;
    return specs.size();
  }
  /// Share of a gradient that this rank contributes; over those who add to it the shares sum to 1.
  [[nodiscard]] double share(std::size_t s) const {
    const Axis axis = replica_axis(specs[s]);
    const double mine = static_cast<double>(mesh.member_index(world().rank(), axis) + 1), n = static_cast<double>(mesh.group_size(axis));
    const double of_stage = !specs[s].is_tied ? 1.0 : mesh.coordinates(world().rank()).pp == 0 ? 0.25 : 0.75;
    return of_stage * mine / (n * (n + 1) / 2);
  }
  /// Every rank contributes a different part of the gradient number(name, i, step) of an element; the parts add up to it.
  void fill_gradient(std::size_t s, Index step) {
    const View gradient = optimizer.gradients()[s];
    for (Index i = 0; i < gradient.count(); ++i) {
      const auto value = static_cast<float>(number(specs[s].name, global(s, i), step) * share(s));
      if (gradient.dtype() == DType::kF32) gradient.as<float>()[i] = value;
      else gradient.as<BFloat16>()[i] = BFloat16(value);
    }
  }
  void fill_gradients(Index step) {
    optimizer.zero_gradients();
    for (std::size_t s = 0; s < specs.size(); ++s) fill_gradient(s, step);
  }
  UpdateResult step(Index step, double lr, bool may_clip = true) {
    fill_gradients(step);
    optimizer.reduce_gradients();
    const UpdateResult result = optimizer.update(lr, may_clip);
    optimizer.wait_weights();
    return result;
  }
  [[nodiscard]] float weight(std::size_t s, Index i) const {
    const View w = optimizer.weights()[s];
    return w.dtype() == DType::kF32 ? w.as<float>()[i] : static_cast<float>(w.as<BFloat16>()[i]);
  }
  /// All weights that this rank holds.
  [[nodiscard]] std::vector<float> all_weights() const {
    std::vector<float> all;
    for (std::size_t s = 0; s < specs.size(); ++s)
      for (Index i = 0; i < optimizer.weights()[s].count(); ++i) all.push_back(weight(s, i));
    return all;
  }

  Mesh mesh;
  std::vector<ParamSpec> specs;
  std::shared_ptr<Groups> groups;
  std::unique_ptr<Backend> backend;
  ShardedOptimizer optimizer;
};

/// Layers of `specs` from the last to the first, each once: the order in which backward completes them.
inline std::set<Index, std::greater<>> layers_in_backward(const std::vector<ParamSpec>& specs) {
  std::set<Index, std::greater<>> layers;
  for (const ParamSpec& spec : specs) layers.insert(spec.layer);
  return layers;
}

/// A layout, and groups that several optimizers may use one after another.
struct Layout {
  ParallelConfig config;
  std::shared_ptr<Groups> groups;
};

/// Every layout of this program's ranks that model_specs() can have.
inline std::vector<Layout> all_layouts() {
  std::vector<Layout> layouts;
  const auto add = [&](ParallelConfig config) {
    const auto groups = std::make_shared<Groups>(Mesh(config, world().size()));
    for (const char* sharding : {"epso", "so", "none"}) {
      config.optimizer_sharding = sharding;
      layouts.push_back({config, groups});
    }
  };
  for (const Index tp : {1, 2, 4}) {
    for (const Index ep : {1, 2, 4}) {
      for (const Index pp : {1, 2, 3, 4}) {
        if (world().size() % (tp * ep * pp) != 0) continue;
        ParallelConfig config;
        config.tp = tp;
        config.ep = ep;
        config.pp = pp;
        config.bucket_elements = 150;
        add(config);
        config.order = "pp-dp-ep-tp";
        if (pp > 1 && world().size() > tp * ep * pp) add(config);  // else the same
      }
    }
  }
  return layouts;
}

inline std::string name_of(const ParallelConfig& c) {
  return "tp " + std::to_string(c.tp) + " ep " + std::to_string(c.ep) + " pp " + std::to_string(c.pp) + " " + c.order + " " + c.optimizer_sharding;
}

/// `value` summed over all ranks.
template <class T> T sum_over_ranks(T value) {
  world().all_reduce(View(reinterpret_cast<std::byte*>(&value), dtype_of<T>, {1}), Reduce::kSum);
  return value;
}

/// AdamW and SGD as textbooks write them: double, no shards, every parameter whole.
struct Textbook {
  Textbook(const std::vector<ParamSpec>& s, const OptimizerConfig& c) : specs(s), config(c) {
    for (const auto& spec : specs) {
      auto& w = weights[spec.name];
      for (Index i = 0; i < spec.shape.count(); ++i) w.push_back(static_cast<float>(number(spec.name, i, 0)));
      m[spec.name].resize(w.size());
      v[spec.name].resize(w.size());
    }
  }
  double step(Index step, double lr) {
    double sum = 0;
    for (const auto& spec : specs)
      for (Index i = 0; i < spec.shape.count(); ++i) sum += std::pow(number(spec.name, i, step), 2);
    const double norm = std::sqrt(sum), clip = config.clip_norm > 0 ? std::min(1.0, config.clip_norm / norm) : 1.0;
    ++updates;
    for (const auto& spec : specs) {
      for (std::size_t i = 0; i < weights[spec.name].size(); ++i) {
        const double g = clip * number(spec.name, static_cast<Index>(i), step);
        double& w = weights[spec.name][i];
        w -= lr * config.weight_decay * w;
        if (config.name == "sgd") {
          w -= lr * g;
          continue;
        }
        double &first = m[spec.name][i], &second = v[spec.name][i];
        first = config.betas[0] * first + (1 - config.betas[0]) * g;
        second = config.betas[1] * second + (1 - config.betas[1]) * g * g;
        w -= lr * (first / (1 - std::pow(config.betas[0], updates))) / (std::sqrt(second / (1 - std::pow(config.betas[1], updates))) + config.eps);
      }
    }
    return norm;
  }
  std::vector<ParamSpec> specs;
  OptimizerConfig config;
  std::map<std::string, std::vector<double>> weights, m, v;
  double updates = 0;
};

}  // namespace optimus::test
