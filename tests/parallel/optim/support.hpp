#pragma once
// A small model's optimizer on the ranks of this program, and an independent optimizer in double to compare with.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optimus/backend/ref/ref_backend.hpp"
#include "optimus/comm/placement.hpp"
#include "optimus/optim/sharded_optimizer.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {

/// Odd and prime sizes, and parameters with fewer elements than there are ranks.
inline std::vector<ParamSpec> odd_specs() {
  return {{.name = "embed", .shape = {13, 8}},
          {.name = "gain", .shape = {1}, .init = Init::kOnes},
          {.name = "experts.{}.up", .shape = {6, 5, 7}, .is_expert = true},
          {.name = "bias", .shape = {2}},
          {.name = "head", .shape = {17, 19}}};
}

/// A number between -1 and 1 that differs with everything.
inline double number(std::string_view name, Index i, Index step) {
  const double x =
      std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(name.size()) + 2.1 * static_cast<double>(step) + static_cast<double>(name[0]));
  return x * (i % 5 == 0 ? 1e-3 : 1.0);
}

/// Groups of this program's ranks for a mesh, all owned.
struct Groups {
  explicit Groups(const Mesh& mesh) {
    Communicator& world = test::world();
    const auto split = [&](Axis axis, const char* name) {
      return world.split(mesh.group_index(world.rank(), axis), mesh.member_index(world.rank(), axis), name);
    };
    dp = split(Axis::kDp, "dp");
    dp_ep = split(Axis::kDpEp, "dp_ep");
    ep = split(Axis::kEp, "ep");
  }
  [[nodiscard]] ReplicaGroups view() const { return {.dp = dp.get(), .dp_ep = dp_ep.get(), .world = &test::world(), .ep = ep.get()}; }
  std::unique_ptr<Communicator> dp, dp_ep, ep;
};

/// An optimizer over all ranks of this program, started from number(name, i, 0).
struct Fixture {
  Fixture(std::vector<ParamSpec> s, const ShardedOptimizer::Options& options)
      : specs(std::move(s)),
        mesh(options.parallel, world().size()),
        groups(mesh),
        backend(make_ref_backend()),
        optimizer(specs, options, mesh, world().rank(), groups.view(), *backend) {
    optimizer.initialize([](const ParamSpec& spec, const Box& box, Index flat_begin, View out) {
      const Index base = box.begin[0] * spec.shape.count_from(1);
      for (Index i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>(number(spec.name, base + flat_begin + i, 0));
    });
  }
  /// First element, in the whole parameter, of the part that this rank holds.
  [[nodiscard]] Index base(std::size_t s) const { return local_box(specs[s], mesh, world().rank()).begin[0] * specs[s].shape.count_from(1); }
  /// Every rank contributes a different part of the gradient number(name, i, step) of an element; the parts add up to it.
  void fill_gradients(Index step) {
    optimizer.zero_gradients();
    for (std::size_t s = 0; s < specs.size(); ++s) {
      const Axis axis = replica_axis(specs[s]);
      const double share = static_cast<double>(mesh.member_index(world().rank(), axis) + 1), n = static_cast<double>(mesh.group_size(axis)),
                   all = n * (n + 1) / 2;
      const View gradient = optimizer.gradients()[s];
      for (Index i = 0; i < gradient.count(); ++i) {
        const auto value = static_cast<float>(number(specs[s].name, base(s) + i, step) * share / all);
        if (gradient.dtype() == DType::kF32) gradient.as<float>()[i] = value;
        else gradient.as<BFloat16>()[i] = BFloat16(value);
      }
    }
  }
  UpdateResult step(Index step, double lr, bool may_clip = true) {
    fill_gradients(step);
    optimizer.reduce_gradients();
    return optimizer.update(lr, may_clip);
  }
  [[nodiscard]] float weight(std::size_t s, Index i) const {
    const View w = optimizer.weights()[s];
    return w.dtype() == DType::kF32 ? w.as<float>()[i] : static_cast<float>(w.as<BFloat16>()[i]);
  }

  std::vector<ParamSpec> specs;
  Mesh mesh;
  Groups groups;
  std::unique_ptr<Backend> backend;
  ShardedOptimizer optimizer;
};

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
