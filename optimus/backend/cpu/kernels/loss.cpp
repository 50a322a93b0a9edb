// Cross-entropy on rows of logits.

#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

constexpr std::int32_t kIgnored = -100;

/// Passes over NaN: the sum that follows has it.
template <class T> float row_max(const T* x, Index width) {
  F top = splat(-__builtin_inff());
  for_vectors(width, [&](Index v, auto n) { top = max(keep(load(x + v, n), n, -__builtin_inff()), top); });
  return max_lane(top);
}

template <class T> void statistics(const CrossEntropyArgs& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.logits) + t * a.width;
    const float top = row_max(x, a.width);
    F total{};
    for_vectors(a.width, [&](Index v, auto n) { total += keep(exp(load(x + v, n) - top), n, 0.0F); });
    const Index column = a.labels[t] - a.vocab_begin;
    a.max[t] = top;
    a.sum[t] = sum(total);
    a.target[t] = a.labels[t] != kIgnored && column >= 0 && column < a.width ? to_float(x[column]) : 0.0F;
  }
}

template <class T, class G> void gradient(const CrossEntropyArgs& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.logits) + t * a.width;
    G* dx = static_cast<G*>(a.dlogits) + t * a.width;
    if (a.labels[t] == kIgnored) {
      for_vectors(a.width, [&](Index v, auto n) { store(dx + v, F{}, n); });
      continue;
    }
    const Index column = a.labels[t] - a.vocab_begin;
    const bool is_here = column >= 0 && column < a.width;
    const float label_logit = is_here ? to_float(x[column]) : 0.0F, lse = a.lse[t];
    for_vectors(a.width, [&](Index v, auto n) { store(dx + v, exp(load(x + v, n) - lse) * a.scale, n); });
    if (is_here) store(dx + column, (exp(splat(label_logit - lse)) - 1.0F) * a.scale, Some{1});
  }
}

template <class T> void argmax(const void* logits, Index width, std::int32_t* index, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(logits) + t * width;
    Index best = 0;
    for (Index v = 1; v < width; ++v) best = to_float(x[v]) > to_float(x[best]) ? v : best;
    index[t] = static_cast<std::int32_t>(best);
  }
}

}  // namespace

const LossTable kLossTable = {{statistics<float>, statistics<Bf16>},
                              {{gradient<float, float>, gradient<float, Bf16>}, {gradient<Bf16, float>, gradient<Bf16, Bf16>}},
                              {argmax<float>, argmax<Bf16>}};

}  // namespace optimus::cpu::OPTIMUS_ISA
