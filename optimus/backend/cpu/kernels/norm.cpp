// RMSNorm and LayerNorm on rows.

#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

template <class T> float sum_squares(const T* x, Index width) {
  F squares{};
  for_vectors(width, [&](Index d, auto n) {
    const F v = load(x + d, n);
    squares = fma(v, v, squares);
  });
  return sum(squares);
}

template <class T> void scale_row(const T* x, const T* gain, float rstd, Index width, T* y) {
  for_vectors(width, [&](Index d, auto n) { store(y + d, load(x + d, n) * rstd * load(gain + d, n), n); });
}

template <class T> void rms_forward(const NormArgs& a, Index begin, Index end) {
  const Index D = a.width;
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * D;
    a.rstd[t] = 1.0F / __builtin_sqrtf(sum_squares(x, D) / static_cast<float>(D) + a.eps);
    scale_row(x, static_cast<const T*>(a.gain), a.rstd[t], D, static_cast<T*>(a.y) + t * D);
  }
}

template <class T> void row_squares(const NormArgs& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) a.sums[t] = sum_squares(static_cast<const T*>(a.x) + t * a.width, a.width);
}

template <class T> void rms_apply(const NormArgs& a, Index begin, Index end) {
  const Index D = a.width;
  for (Index t = begin; t < end; ++t) scale_row(static_cast<const T*>(a.x) + t * D, static_cast<const T*>(a.gain), a.rstd[t], D, static_cast<T*>(a.y) + t * D);
}

template <class T> void rms_dots(const NormArgs& a, Index begin, Index end) {
  const Index D = a.width;
  const auto* gain = static_cast<const T*>(a.gain);
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * D;
    const T* dy = static_cast<const T*>(a.dy) + t * D;
    const float rstd = a.rstd[t];
    F dot{};
    for_vectors(D, [&](Index d, auto n) { dot = fma(load(dy + d, n) * load(gain + d, n), load(x + d, n) * rstd, dot); });
    a.sums[t] = sum(dot);
  }
}

/// The sums over a row are given where only a part of it is here.
template <class T, bool kAreSumsGiven> void rms_backward(const NormArgs& a, Index begin, Index end) {
  const Index D = a.width;
  const auto* gain = static_cast<const T*>(a.gain);
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * D;
    const T* dy = static_cast<const T*>(a.dy) + t * D;
    T* dx = static_cast<T*>(a.dx) + t * D;
    const float rstd = a.rstd[t];
    F dot{};
    for_vectors(D, [&](Index d, auto n) {
      const F g = load(dy + d, n), normed = load(x + d, n) * rstd;
      store(a.dgain_partial + d, fma(g, normed, load(a.dgain_partial + d, n)), n);
      if constexpr (!kAreSumsGiven) dot = fma(g * load(gain + d, n), normed, dot);
    });
    const float mean = (kAreSumsGiven ? a.sums[t] : sum(dot)) / static_cast<float>(kAreSumsGiven ? a.whole_width : D);
    for_vectors(D, [&](Index d, auto n) {
      const F normed = load(x + d, n) * rstd;
      F g = (load(dy + d, n) * load(gain + d, n) - normed * mean) * rstd;
      if (a.accumulate) g += load(dx + d, n);
      store(dx + d, g, n);
    });
  }
}

template <class T> void layer_forward(const NormArgs& a, Index begin, Index end) {
  const Index D = a.width;
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * D;
    T* y = static_cast<T*>(a.y) + t * D;
    F total{}, squares{};
    for_vectors(D, [&](Index d, auto n) { total += load(x + d, n); });
    const float mean = sum(total) / static_cast<float>(D);
    for_vectors(D, [&](Index d, auto n) {
      const F v = keep(load(x + d, n) - mean, n, 0.0F);
      squares = fma(v, v, squares);
    });
    const float rstd = 1.0F / __builtin_sqrtf(sum(squares) / static_cast<float>(D) + a.eps);
    a.mean[t] = mean;
    a.rstd[t] = rstd;
    for_vectors(D, [&](Index d, auto n) { store(y + d, (load(x + d, n) - mean) * rstd, n); });
  }
}

template <class T> void layer_backward(const NormArgs& a, Index begin, Index end) {
  const Index D = a.width;
  for (Index t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * D;
    const T* dy = static_cast<const T*>(a.dy) + t * D;
    T* dx = static_cast<T*>(a.dx) + t * D;
    const float mean = a.mean[t], rstd = a.rstd[t];
    F total{}, dot{};
    for_vectors(D, [&](Index d, auto n) {
      const F g = load(dy + d, n);
      total += g;
      dot = fma(g, (load(x + d, n) - mean) * rstd, dot);
    });
    const float mean_dy = sum(total) / static_cast<float>(D), mean_dot = sum(dot) / static_cast<float>(D);
    for_vectors(D, [&](Index d, auto n) {
      F g = (load(dy + d, n) - mean_dy - (load(x + d, n) - mean) * rstd * mean_dot) * rstd;
      if (a.accumulate) g += load(dx + d, n);
      store(dx + d, g, n);
    });
  }
}

}  // namespace

const NormTable kNormTable = {{rms_forward<float>, rms_forward<Bf16>},     {rms_backward<float, false>, rms_backward<Bf16, false>},
                              {row_squares<float>, row_squares<Bf16>},     {rms_apply<float>, rms_apply<Bf16>},
                              {rms_dots<float>, rms_dots<Bf16>},           {rms_backward<float, true>, rms_backward<Bf16, true>},
                              {layer_forward<float>, layer_forward<Bf16>}, {layer_backward<float>, layer_backward<Bf16>}};

}  // namespace optimus::cpu::OPTIMUS_ISA
