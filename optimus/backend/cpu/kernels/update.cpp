// Optimizer updates on flat arrays: element by element, whole vectors and tails by the same instructions, so cutting an array elsewhere changes no bit.

#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

template <class G, class W> void adamw(const AdamWArgs& a, Index begin, Index end) {
  const auto* gradient = static_cast<const G*>(a.gradient) + begin;
  auto* weight = static_cast<W*>(a.weight) + begin;
  float *master = a.master + begin, *exp_avg = a.exp_avg + begin, *exp_avg_sq = a.exp_avg_sq + begin;
  for_vectors(end - begin, [&](Index i, auto n) {
    const F g = load(gradient + i, n) * a.gradient_scale;
    const F m = fma(splat(a.beta1), load(exp_avg + i, n), g * a.one_minus_beta1);
    const F v = fma(splat(a.beta2), load(exp_avg_sq + i, n), g * g * a.one_minus_beta2);
    const F w = load(master + i, n) * a.keep - a.step_size * m / (sqrt(v) * a.inverse_sqrt_correction2 + a.eps);
    store(exp_avg + i, m, n);
    store(exp_avg_sq + i, v, n);
    store(master + i, w, n);
    store_exact(weight + i, w, n);
  });
}

template <class G, class W> void sgd(const AdamWArgs& a, Index begin, Index end) {
  const auto* gradient = static_cast<const G*>(a.gradient) + begin;
  auto* weight = static_cast<W*>(a.weight) + begin;
  float* master = a.master + begin;
  for_vectors(end - begin, [&](Index i, auto n) {
    const F w = load(master + i, n) * a.keep - load(gradient + i, n) * a.step_size;
    store(master + i, w, n);
    store_exact(weight + i, w, n);
  });
}

typedef float HalfF __attribute__((vector_size(2 * kLanes)));
typedef double D __attribute__((vector_size(4 * kLanes)));

template <class T> double sum_squares(const void* x, Index count) {
  const auto* p = static_cast<const T*>(x);
  D total[2] = {};
  for_vectors(count, [&](Index i, auto n) {
    HalfF halves[2];
    const F v = load(p + i, n);
    __builtin_memcpy(halves, &v, sizeof v);
    for (int h = 0; h < 2; ++h) {
      const D wide = __builtin_convertvector(halves[h], D);
      total[h] += wide * wide;
    }
  });
  double s = 0;
  for (int i = 0; i < kLanes / 2; ++i) s += total[0][i] + total[1][i];
  return s;
}

}  // namespace

const UpdateTable kUpdateTable = {{{adamw<float, float>, adamw<float, Bf16>}, {adamw<Bf16, float>, adamw<Bf16, Bf16>}},
                                  {{sgd<float, float>, sgd<float, Bf16>}, {sgd<Bf16, float>, sgd<Bf16, Bf16>}},
                                  {sum_squares<float>, sum_squares<Bf16>}};

}  // namespace optimus::cpu::OPTIMUS_ISA
