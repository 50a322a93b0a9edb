// Router arithmetic on rows of E logits, expert activation, weighted sums of expert rows.

#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();

void softmax(const RouterArgs& a, Index begin, Index end) {
  const Index E = a.experts;
  for (Index t = begin; t < end; ++t) {
    const float* logits = a.logits + t * E;
    float* p = a.p_out + t * E;
    F top = splat(-kInfinity), total{};
    for_vectors(E, [&](Index e, auto n) { top = max(keep(load(logits + e, n), n, -kInfinity), top); });
    const float largest = max_lane(top);
    for_vectors(E, [&](Index e, auto n) {
      const F value = keep(exp(load(logits + e, n) - largest), n, 0.0F);
      total += value;
      store(p + e, value, n);
    });
    const float denominator = sum(total);
    a.lse_out[t] = largest + __builtin_logf(denominator);
    for_vectors(E, [&](Index e, auto n) { store(p + e, load(p + e, n) / denominator, n); });
  }
}

/// The lowest index of the largest of `values`; NaN never wins, but the result is an index not yet taken (taken ones are -infinity).
Index first_largest(const float* values, Index count, const std::int32_t* taken, Index num_taken) {
  F top = splat(-kInfinity);
  for_vectors(count, [&](Index e, auto n) { top = max(keep(load(values + e, n), n, -kInfinity), top); });
  const float largest = max_lane(top);
  for (Index e = 0; e < count && largest > -kInfinity; ++e)
    if (values[e] == largest) return e;
  for (Index e = 0; e < count; ++e) {
    bool is_taken = false;
    for (Index k = 0; k < num_taken; ++k) is_taken |= taken[k] == e;
    if (!is_taken) return e;
  }
  return 0;
}

void top_k(const RouterArgs& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    float* left = a.row_scratch;
    for_vectors(a.experts, [&](Index e, auto n) { store(left + e, load(a.p + t * a.experts + e, n), n); });
    std::int32_t* index = a.index_out + t * a.choices;
    for (Index k = 0; k < a.choices; ++k) {
      const Index best = first_largest(left, a.experts, index, k);
      index[k] = static_cast<std::int32_t>(best);
      left[best] = -kInfinity;
    }
  }
}

/// g of one row into dlogits, which is then turned into the gradient in place.
void router_backward(const RouterArgs& a, Index begin, Index end) {
  const Index E = a.experts, K = a.choices;
  for (Index t = begin; t < end; ++t) {
    const float* p = a.p + t * E;
    float* g = a.dlogits + t * E;
    const float* dp = a.dp != nullptr ? a.dp + t / a.rows_per_group * E : nullptr;
    for_vectors(E, [&](Index e, auto n) { store(g + e, dp != nullptr ? load(dp + e, n) : F{}, n); });
    const std::int32_t* index = a.index + t * K;
    const float* dweight = a.dweight + t * K;
    float scale = 1.0F, mean = 0.0F;
    if (a.normalise) {
      float chosen = 0.0F;
      for (Index k = 0; k < K; ++k) chosen += p[index[k]];
      for (Index k = 0; k < K; ++k) mean += dweight[k] * a.weight[t * K + k];
      scale = 1.0F / chosen;
    }
    for (Index k = 0; k < K; ++k) g[index[k]] += (dweight[k] - mean) * scale;
    F dot{};
    for_vectors(E, [&](Index e, auto n) { dot = fma(load(p + e, n), load(g + e, n), dot); });
    const float centre = sum(dot) - 2.0F * a.z_scale * a.lse[t];
    for_vectors(E, [&](Index e, auto n) { store(g + e, load(p + e, n) * (load(g + e, n) - centre), n); });
  }
}

/// out[t] (+)= sum over the slots of row t of weight * rows[slot]
template <class T> void combine(const CombineArgs& a, Index begin, Index end) {
  const auto* rows = static_cast<const T*>(a.rows);
  for (Index t = begin; t < end; ++t) {
    T* out = static_cast<T*>(a.out) + t * a.width;
    const Index first = a.row_offsets[t], last = a.row_offsets[t + 1];
    for_vectors(a.width, [&](Index d, auto n) {
      F total{};
      for (Index o = first; o < last; ++o) {
        const F value = load(rows + a.output_indices[o] * a.width + d, n);
        total = a.weight != nullptr ? fma(value, splat(a.weight[t * a.choices + a.selected_k[o]]), total) : total + value;
      }
      if (a.accumulate) total += load(out + d, n);
      store(out + d, total, n);
    });
  }
}

template <class T> void swiglu_forward(const SwigluArgs& a, Index begin, Index end) {
  const auto *gate = static_cast<const T*>(a.gate) + begin, *up = static_cast<const T*>(a.up) + begin;
  auto* act = static_cast<T*>(a.act) + begin;
  for_vectors(end - begin, [&](Index i, auto n) {
    const F g = load(gate + i, n);
    store(act + i, g * sigmoid(g) * load(up + i, n), n);
  });
}

template <class T> void swiglu_backward(const SwigluArgs& a, Index begin, Index end) {
  const auto *dact = static_cast<const T*>(a.dact) + begin, *gate = static_cast<const T*>(a.gate) + begin, *up = static_cast<const T*>(a.up) + begin;
  auto *dgate = static_cast<T*>(a.dgate) + begin, *dup = static_cast<T*>(a.dup) + begin;
  for_vectors(end - begin, [&](Index i, auto n) {
    const F g = load(gate + i, n), u = load(up + i, n), d = load(dact + i, n), s = sigmoid(g);
    store(dup + i, d * g * s, n);
    store(dgate + i, d * u * s * (1.0F + g * (1.0F - s)), n);
  });
}

template <class T> void expert_swiglu_backward(const SwigluArgs& a, Index begin, Index end) {
  for (Index r = begin; r < end; ++r) {
    const Index row = r * a.width;
    const auto *dact = static_cast<const T*>(a.dact) + row, *gate = static_cast<const T*>(a.gate) + row, *up = static_cast<const T*>(a.up) + row;
    auto *dgate = static_cast<T*>(a.dgate) + row, *dup = static_cast<T*>(a.dup) + row, *weighted_act = static_cast<T*>(a.weighted_act) + row;
    const float weight = a.weight[r];
    F dot{};
    for_vectors(a.width, [&](Index i, auto n) {
      const F g = load(gate + i, n), u = load(up + i, n), d = load(dact + i, n), s = sigmoid(g);
      const F silu = g * s, act = silu * u, d_weighted = d * weight;
      dot = fma(act, d, dot);
      store(weighted_act + i, act * weight, n);
      store(dup + i, d_weighted * silu, n);
      store(dgate + i, d_weighted * u * s * (1.0F + g * (1.0F - s)), n);
    });
    a.dweight[r] = sum(dot);
  }
}

}  // namespace

const MoeTable kMoeTable = {softmax,
                            top_k,
                            router_backward,
                            {combine<float>, combine<Bf16>},
                            {swiglu_forward<float>, swiglu_forward<Bf16>},
                            {swiglu_backward<float>, swiglu_backward<Bf16>},
                            {expert_swiglu_backward<float>, expert_swiglu_backward<Bf16>}};

}  // namespace optimus::cpu::OPTIMUS_ISA
