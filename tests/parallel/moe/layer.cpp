#include "layer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "optimus/backend/dry/dry_backend.hpp"
#include "optimus/comm/dry/dry.hpp"
#include "tests/support/model_testing.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus::test {
namespace {

/// Tensors of one rank. Whatever is read before it was written is NaN.
struct Values {
  Values(const Layer& layer, const Way& way, const IndexRange& rows, const IndexRange& experts)
      : x(cut("x", layer.rows, layer.hidden_size, rows, way.dtype)),
        dy(cut("dy", layer.rows, layer.hidden_size, rows, way.dtype)),
        weight(cut("weight", layer.rows, layer.top_k, rows, way.dtype == DType::kF64 ? DType::kF64 : DType::kF32)),
        index(DType::kI32, {rows.count, layer.top_k}),
        y(way.dtype, {rows.count, layer.hidden_size}),
        dx(way.dtype, {rows.count, layer.hidden_size}),
        dweight(weight.view().dtype(), {rows.count, layer.top_k}),
        gate(stack("gate", layer.num_experts, layer.intermediate_size, layer.hidden_size, experts, way.dtype)),
        up(stack("up", layer.num_experts, layer.intermediate_size, layer.hidden_size, experts, way.dtype)),
        down(stack("down", layer.num_experts, layer.hidden_size, layer.intermediate_size, experts, way.dtype)),
        dgate(gradient_of(gate)),
        dup(gradient_of(up)),
        ddown(gradient_of(down)) {
    for (Index i = 0; i < rows.count * layer.top_k; ++i) index.set(i, static_cast<double>(layer.index[static_cast<std::size_t>(rows.begin * layer.top_k + i)]));
  }

  static Tensor cut(std::string_view name, Index all, Index width, const IndexRange& rows, DType dtype) {
    const std::vector<double> values = normal(name, all * width);
    return {dtype, {rows.count, width}, {values.begin() + rows.begin * width, values.begin() + (rows.begin + rows.count) * width}};
  }
  static Tensor stack(std::string_view name, Index all, Index a, Index b, const IndexRange& experts, DType dtype) {
    const std::vector<double> values = normal(name, all * a * b, 0.5);
    return {dtype, {experts.count, a, b}, {values.begin() + experts.begin * a * b, values.begin() + (experts.begin + experts.count) * a * b}};
  }
  static Tensor gradient_of(const Tensor& weights) {
    const DType type = weights.view().dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    return {type, weights.view().shape(), constant(0, weights.view().count())};
  }

  Tensor x, dy, weight, index, y, dx, dweight, gate, up, down, dgate, dup, ddown;
};

/// The two memories of a layer.
struct Memory {
  Arena kept, temporaries;
};

Arena filled_with_nan(Index bytes) {
  Arena arena(bytes);
  const View all = arena.alloc(DType::kU8, {bytes});
  if (bytes > 0) std::memset(all.data(), 0xff, static_cast<std::size_t>(bytes));
  arena.release_to(0);
  return arena;
}

MoeContext context(const Layer& layer, const Way& way, Backend& backend, Memory& memory, Communicator* ep, const Dispatcher& dispatcher,
                   const MoeConfig& config) {
  return {.backend = backend,
          .arena = memory.temporaries,
          .kept = &memory.kept,
          .dispatcher = dispatcher,
          .config = config,
          .shape = {.hidden_size = layer.hidden_size, .intermediate_size = layer.intermediate_size, .num_experts = layer.num_experts, .top_k = layer.top_k},
          .tp = nullptr,
          .ep = ep,
          .dtype = way.dtype,
          .wide = way.dtype == DType::kF64 ? DType::kF64 : DType::kF32,
          .is_planning = memory.kept.is_measuring(),
          .overlap = way.overlap};
}

ExpertsSaved run(const MoeContext& c, const Experts& experts, const Values& v) {
  const Routing routing{.p_TE = {}, .lse_T = {}, .index_TK = v.index, .weight_TK = v.weight, .statistics = {}};
  const ExpertWeights w{v.gate, v.up, v.down}, dw{v.dgate, v.dup, v.ddown};
  const ExpertsSaved saved = experts.allocate(c, v.x.view().size(0));
  experts.forward(c, w, v.x, routing, saved, v.y);
  experts.forward(c, w, v.x, routing, saved, {});
  experts.backward(c, w, v.x, routing, saved, {.dy_TD = v.dy, .dx_TD = v.dx, .dweight_TK = v.dweight, .dw = dw});
  return saved;
}

IndexRange share(Index all, bool is_shared) {
  if (!is_shared) return {.begin = 0, .count = all};
  const Index count = all / world().size();
  return {.begin = world().rank() * count, .count = count};
}

}  // namespace

Layer layer_of(Index rows, Index num_experts, Index top_k, Index busy_experts) {
  Layer layer{.rows = rows, .num_experts = num_experts, .top_k = top_k, .index = {}};
  for (Index t = 0; t < rows; ++t)
    for (Index k = 0; k < top_k; ++k) layer.index.push_back(static_cast<std::int32_t>((t * t * 3 + t / 2 + k) % busy_experts));
  return layer;
}

LayerResult compute(const Layer& layer, const Way& way) {
  const Index ranks = way.is_shared ? world().size() : 1;
  EXPECT_EQ(layer.rows % ranks, 0);
  EXPECT_EQ(layer.num_experts % ranks, 0);
  const Values v(layer, way, share(layer.rows, way.is_shared), share(layer.num_experts, way.is_shared));
  MoeConfig config;
  config.dispatcher = way.dispatcher;
  const auto experts = make_experts(way.implementation);
  Communicator* ep = ranks > 1 ? &world() : nullptr;
  const auto dispatcher = make_dispatcher(way.dispatcher, ep);

  Memory plan{Arena::measuring(), Arena::measuring()};
  const auto dry_backend = make_dry_backend();
  const auto dry_ep = ranks > 1 ? make_dry_communicator(ranks, world().rank(), "ep") : nullptr;
  (void)run(context(layer, way, *dry_backend, plan, dry_ep.get(), *dispatcher, config), *experts, v);

  Memory memory{filled_with_nan(plan.kept.peak()), filled_with_nan(plan.temporaries.peak())};
  const auto backend = make_backend(way.backend);
  const ExpertsSaved saved = run(context(layer, way, *backend, memory, ep, *dispatcher, config), *experts, v);
  for (const Tensor* tensor : {&v.y, &v.dx, &v.dweight, &v.dgate, &v.dup, &v.ddown}) EXPECT_TRUE(tensor->has_intact_guards());
  return {.y = v.y.values(),
          .dx = v.dx.values(),
          .dweight = v.dweight.values(),
          .dw_gate = v.dgate.values(),
          .dw_up = v.dup.values(),
          .dw_down = v.ddown.values(),
          .num_parts = saved.num_parts,
          .slots = saved.memory[0].plan.segments_e.span<Index>().back()};
}

LayerResult own_part(const Layer& layer, const LayerResult& whole) {
  const auto cut = [](const std::vector<double>& all, const IndexRange& range, Index width) {
    return std::vector<double>(all.begin() + range.begin * width, all.begin() + (range.begin + range.count) * width);
  };
  const IndexRange rows = share(layer.rows, true), experts = share(layer.num_experts, true);
  const Index size = layer.hidden_size * layer.intermediate_size;
  return {.y = cut(whole.y, rows, layer.hidden_size),
          .dx = cut(whole.dx, rows, layer.hidden_size),
          .dweight = cut(whole.dweight, rows, layer.top_k),
          .dw_gate = cut(whole.dw_gate, experts, size),
          .dw_up = cut(whole.dw_up, experts, size),
          .dw_down = cut(whole.dw_down, experts, size)};
}

void expect_same(const LayerResult& got, const LayerResult& want, double bound) {
  expect_near("y", got.y, want.y, bound);
  expect_near("dx", got.dx, want.dx, bound);
  expect_near("dweight", got.dweight, want.dweight, bound);
  expect_near("dw_gate", got.dw_gate, want.dw_gate, bound);
  expect_near("dw_up", got.dw_up, want.dw_up, bound);
  expect_near("dw_down", got.dw_down, want.dw_down, bound);
}

}  // namespace optimus::test
