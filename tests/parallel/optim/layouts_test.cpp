// The optimizer in every layout that this program's ranks can have.
#include <cstring>

#include "optimus/tensor/chunk.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

ShardedOptimizer::Options options(const ParallelConfig& layout, const std::string& name = "adamw", const std::string& weights = "fp32") {
  ShardedOptimizer::Options o;
  o.optimizer.name = name;
  o.precision.weights = weights;
  o.parallel = layout;
  return o;
}

TEST(Layouts, AllMatchATextbookOptimizerInDouble) {
  for (const char* name : {"adamw", "sgd"}) {
    Textbook textbook(model_specs(), options({}, name).optimizer);
    double norms[2];
    for (Index step = 1; step <= 2; ++step) norms[step - 1] = textbook.step(step, 0.01);
    for (const auto& [layout, groups] : all_layouts()) {
      Fixture f(model_specs(), options(layout, name), groups);
      for (Index step = 1; step <= 2; ++step) EXPECT_NEAR(f.step(step, 0.01).grad_norm, norms[step - 1], 1e-6 * norms[step - 1]) << name_of(layout);
      double worst = 0;
      for (std::size_t s = 0; s < f.specs.size(); ++s)
        for (Index i = 0; i < f.optimizer.weights()[s].count(); ++i)
          worst = std::max(worst, std::abs(f.weight(s, i) - textbook.weights[f.specs[s].name][static_cast<std::size_t>(f.global(s, i))]));
      EXPECT_LT(worst, 2e-6) << name << " " << name_of(layout);
    }
  }
}

TEST(Layouts, StartFromTheSameBits) {
  for (const auto& [layout, groups] : all_layouts()) {
    for (const bool is_read : {false, true}) {
      Fixture f(model_specs(), options(layout, "adamw", "bf16"), groups);
      if (is_read) f.optimizer.initialize_from_reader(Fixture::start);
      Index wrong = 0;
      for (std::size_t s = 0; s < f.specs.size(); ++s) {
        for (Index i = 0; i < f.optimizer.weights()[s].count(); ++i)
          wrong += f.weight(s, i) != static_cast<float>(BFloat16(static_cast<float>(number(f.specs[s].name, f.global(s, i), 0)))) ? 1 : 0;
      }
      for (const Chunk& chunk : f.optimizer.state_chunks()) {
        if (!chunk.name.starts_with("master.")) continue;
        for (Index i = 0; i < chunk.data.count(); ++i)
          wrong += chunk.data.as<float>()[i] !=
                           static_cast<float>(number(chunk.name.substr(7), global_index(chunk.global_shape, chunk.box, chunk.flat_begin + i), 0))
                       ? 1
                       : 0;
      }
      EXPECT_EQ(wrong, 0) << name_of(layout) << (is_read ? ", read" : "");
    }
  }
}

TEST(Layouts, WriteEachElementOnce) {
  const std::vector<ParamSpec> specs = model_specs();
  std::map<std::string, std::pair<Index, Index>> places;  // first element and count of each parameter among all
  Index total = 0;
  for (const ParamSpec& spec : specs) {
    places[spec.name] = {total, spec.shape.count()};
    total += spec.shape.count();
  }
  for (const auto& [layout, groups] : all_layouts()) {
    Fixture f(specs, options(layout), groups);
    for (const std::string prefix : {"model.", "exp_avg."}) {
      std::vector<std::int64_t> times(static_cast<std::size_t>(total));
      for (const Chunk& chunk : f.optimizer.owned_state_chunks()) {
        if (!chunk.name.starts_with(prefix) || chunk.name.starts_with("exp_avg_sq")) continue;
        const Index first = places.at(chunk.name.substr(prefix.size())).first;
        for (Index i = 0; i < chunk.data.count(); ++i)
          ++times[static_cast<std::size_t>(first + global_index(chunk.global_shape, chunk.box, chunk.flat_begin + i))];
      }
      world().all_reduce(View(reinterpret_cast<std::byte*>(times.data()), DType::kI64, {total}), Reduce::kSum);
      EXPECT_EQ(std::count(times.begin(), times.end(), 1), total) << name_of(layout);
    }
  }
}

/// What owners loaded alone reaches everybody who holds the same.
TEST(Layouts, ShareStatesThatTheirOwnersLoaded) {
  for (const auto& [layout, groups] : all_layouts()) {
    const auto o = options(layout, "adamw", "bf16");
    Fixture a(model_specs(), o, groups), b(model_specs(), o, groups);
    (void)a.step(1, 0.01);
    const auto from = a.optimizer.owned_state_chunks(), to = b.optimizer.owned_state_chunks();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) std::memcpy(to[i].data.data(), from[i].data.data(), static_cast<std::size_t>(from[i].data.bytes()));
    b.optimizer.share_states();
    b.optimizer.set_adam_step(a.optimizer.adam_step());
    b.optimizer.publish_weights(false);
    EXPECT_EQ(a.all_weights(), b.all_weights()) << name_of(layout);
    (void)a.step(2, 0.01);
    (void)b.step(2, 0.01);
    EXPECT_EQ(a.all_weights(), b.all_weights()) << name_of(layout);
  }
}

TEST(Layouts, ReadEachValueOnce) {
  Index parameters = 0;
  for (const ParamSpec& spec : model_specs()) parameters += spec.shape.count();
  for (const auto& [layout, groups] : all_layouts()) {
    Fixture f(model_specs(), options(layout), groups);
    std::int64_t mine = 0;
    f.optimizer.initialize_from_reader([&mine](const ParamSpec& spec, const Box& box, Index flat_begin, View out) {
      mine += out.count();
      Fixture::start(spec, box, flat_begin, out);
    });
    EXPECT_EQ(sum_over_ranks(mine), parameters) << name_of(layout);
    if (f.mesh.dp() == world().size()) {
      EXPECT_EQ(mine, world().rank() == 0 ? parameters : 0) << name_of(layout);
    }
  }
}

TEST(Layouts, ThrowOnAllRanksWhatReadingThrowsOnOne) {
  for (const auto& [layout, groups] : all_layouts()) {
    Fixture f(model_specs(), options(layout), groups);
    const auto read = [](const ParamSpec& spec, const Box&, Index, View) {
      if (spec.name == "1.k") throw CheckpointError("[test] unreadable");
    };
    EXPECT_THROW(f.optimizer.initialize_from_reader(read), CheckpointError) << name_of(layout);
  }
}

TEST(Layouts, UseTheBytesThatWerePlanned) {
  for (const auto& [layout, groups] : all_layouts()) {
    const auto o = options(layout, "adamw", "bf16");
    Fixture f(model_specs(), o, groups);
    const auto real = f.optimizer.bytes(), plan = ShardedOptimizer::plan_bytes(f.specs, o, f.mesh, world().rank());
    EXPECT_EQ(real.weights, plan.weights);
    EXPECT_EQ(real.gradients, plan.gradients);
    EXPECT_EQ(real.master, plan.master);
    EXPECT_EQ(real.moments, plan.moments);
    Index chunks = 0;
    for (const Chunk& chunk : f.optimizer.state_chunks()) chunks += chunk.name.starts_with("exp_avg") ? chunk.data.bytes() : 0;
    EXPECT_LE(chunks, real.moments) << "padding";
  }
}

/// One parameter that all ranks hold, with gradient 1, and four experts of one element with gradients 2, 4, 6, 8: sqrt(1 + 4 + 16 + 36 + 64) = 11.
std::vector<ParamSpec> worked_specs() {
  return {{.name = "shared", .shape = {1}, .layer = 0}, {.name = "experts.{}.w", .shape = {4, 1}, .is_expert = true, .layer = 0}};
}

TEST(GradientNorm, IsThatWorkedByHandInEveryLayout) {
  for (const auto& [layout, groups] : all_layouts()) {
    // The shared one is as well a column of TP's rows: each TP rank contributes what its rows give. Experts of one element cannot be cut.
    if (layout.pp > 1) continue;
    auto o = options(layout, "sgd");
    o.optimizer.weight_decay = 0;
    std::vector<ParamSpec> specs = worked_specs();
    const Mesh mesh(layout, world().size());
    if (layout.tp > 1) {  // experts of TP ranks: one column each, of which the first has the gradient
      specs[1].shape = {4, layout.tp};
      specs[1].tp_dim = 1;
    }
    Fixture f(specs, o, groups);
    f.optimizer.zero_gradients();
    const auto replicas = static_cast<float>(mesh.group_size(Axis::kDpEpTp)), copies = static_cast<float>(mesh.dp());
    f.optimizer.gradients()[0].as<float>()[0] = 1.0F / replicas;
    const View experts = f.optimizer.gradients()[1];
    const bool has_column = mesh.coordinates(world().rank()).tp == 0;
    for (Index e = 0; e < experts.count(); ++e)
      experts.as<float>()[e] = has_column ? 2.0F * static_cast<float>(f.global(1, e) / specs[1].shape[1] + 1) / copies : 0.0F;
    const float shared = f.weight(0, 0);
    std::vector<float> before;
    for (Index e = 0; e < experts.count(); ++e) before.push_back(f.weight(1, e));
    f.optimizer.reduce_gradients();
    const UpdateResult result = f.optimizer.update(1.0, true);
    f.optimizer.wait_weights();
    EXPECT_NEAR(result.grad_norm, 11.0, 1e-6) << name_of(layout);
    EXPECT_NEAR(shared - f.weight(0, 0), 0.0909, 5e-5) << name_of(layout);
    const double clipped[] = {0.1818, 0.3636, 0.5455, 0.7273};
    for (Index e = 0; e < experts.count(); ++e)
      EXPECT_NEAR(before[static_cast<std::size_t>(e)] - f.weight(1, e), has_column ? clipped[f.global(1, e) / specs[1].shape[1]] : 0.0, 5e-5)
          << name_of(layout);
  }
}

/// Gradients of experts without rows, and of ranks without any, are exactly 0 in memory that was poisoned; such weights decay and do nothing else.
TEST(Idle, ExpertsAndRanksOnlyDecay) {
  constexpr double kLr = 0.01, kDecay = 0.1;
  std::map<std::string, std::vector<float>> first;  // weights in the first layout
  for (const auto& [layout, groups] : all_layouts()) {
    if (layout.pp > 1) continue;  // stages hold other parameters
    Fixture f(model_specs(), options(layout), groups);
    std::map<std::string, std::vector<float>> expected;
    for (std::size_t s = 0; s < f.specs.size(); ++s)
      for (Index i = 0; i < f.optimizer.weights()[s].count(); ++i) expected[f.specs[s].name].push_back(f.weight(s, i));
    for (Index step = 1; step <= 5; ++step) {
      f.optimizer.zero_gradients();
      for (std::size_t s = 0; s < f.specs.size(); ++s) {
        const View gradient = f.optimizer.gradients()[s];
        for (Index i = 0; i < gradient.count(); ++i) ASSERT_EQ(gradient.as<float>()[i], 0.0F) << name_of(layout);
        // Of layer 2 nothing gets a gradient; elsewhere only the second expert's, and only on one rank of those that hold it.
        if (f.specs[s].layer == 2 || !f.specs[s].is_expert || f.mesh.member_index(world().rank(), Axis::kDp) > 0) continue;
        const Index per_expert = f.specs[s].shape.count_from(1);
        for (Index i = 0; i < gradient.count(); ++i)
          if (f.global(s, i) / per_expert == 1) gradient.as<float>()[i] = static_cast<float>(number(f.specs[s].name, f.global(s, i), step));
      }
      f.optimizer.reduce_gradients();
      (void)f.optimizer.update(kLr, true);
      f.optimizer.wait_weights();
      for (auto& [name, values] : expected)
        for (float& value : values) value = static_cast<float>(value * (1.0 - kLr * kDecay));
    }
    double worst = 0;
    for (std::size_t s = 0; s < f.specs.size(); ++s) {
      const std::string& name = f.specs[s].name;
      auto& known = first[name];
      known.resize(static_cast<std::size_t>(f.specs[s].shape.count()), std::nanf(""));
      for (Index i = 0; i < f.optimizer.weights()[s].count(); ++i) {
        const Index at = f.global(s, i);
        const bool is_busy = f.specs[s].is_expert && f.specs[s].layer != 2 && at / f.specs[s].shape.count_from(1) == 1;
        const float decayed = expected[name][static_cast<std::size_t>(i)];
        if (!is_busy) worst = std::max(worst, static_cast<double>(std::abs(f.weight(s, i) - decayed)));
        else EXPECT_NE(f.weight(s, i), decayed);
        if (is_busy || std::isnan(known[static_cast<std::size_t>(at)])) continue;
        EXPECT_EQ(f.weight(s, i), known[static_cast<std::size_t>(at)]) << name_of(layout) << " " << name;
      }
      for (Index i = 0; i < f.optimizer.weights()[s].count(); ++i) known[static_cast<std::size_t>(f.global(s, i))] = f.weight(s, i);
    }
    EXPECT_EQ(worst, 0) << name_of(layout);
  }
}

}  // namespace
}  // namespace optimus::test
