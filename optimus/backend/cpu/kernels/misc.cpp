// Element-wise passes, rotary positions, and the measurement of the arithmetic peak.

#include "optimus/backend/cpu/kernels/tables.hpp"
#include "optimus/backend/cpu/kernels/tile.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

template <class T> void add(const void* a, const void* b, void* out, Index begin, Index end) {
  const auto *x = static_cast<const T*>(a) + begin, *y = static_cast<const T*>(b) + begin;
  auto* z = static_cast<T*>(out) + begin;
  for_vectors(end - begin, [&](Index i, auto n) { store(z + i, load(x + i, n) + load(y + i, n), n); });
}
template <class A, class Out> void add_into(const void* a, void* out, Index count) {
  const auto* x = static_cast<const A*>(a);
  auto* z = static_cast<Out*>(out);
  for_vectors(count, [&](Index i, auto n) { store(z + i, load(z + i, n) + load(x + i, n), n); });
}
template <class T> void clamp_forward(const void* in, float limit, void* out, Index begin, Index end) {
  const auto* x = static_cast<const T*>(in) + begin;
  auto* y = static_cast<T*>(out) + begin;
  for_vectors(end - begin, [&](Index i, auto n) {
    const F v = load(x + i, n);
    const F low = v < -limit ? splat(-limit) : v;
    store(y + i, low > limit ? splat(limit) : low, n);
  });
}
template <class T> void clamp_backward(const void* dy, const void* in, float limit, void* dx, Index begin, Index end) {
  const auto *g = static_cast<const T*>(dy) + begin, *x = static_cast<const T*>(in) + begin;
  auto* out = static_cast<T*>(dx) + begin;
  for_vectors(end - begin, [&](Index i, auto n) {
    const F v = load(x + i, n), d = load(g + i, n);
    const F low = v >= -limit ? d : F{};
    store(out + i, v <= limit ? low : F{}, n);
  });
}
void to_bf16(const float* in, void* out, Index begin, Index end) {
  auto* y = static_cast<Bf16*>(out);
  for_vectors(end - begin, [&](Index i, auto n) { store_exact(y + begin + i, load(in + begin + i, n), n); });
}
void to_f32(const void* in, float* out, Index begin, Index end) {
  const auto* x = static_cast<const Bf16*>(in);
  for_vectors(end - begin, [&](Index i, auto n) { store(out + begin + i, load(x + begin + i, n), n); });
}

template <class T> void rope(const RopeArgs& a, Index begin, Index end) {
  for (Index t = begin; t < end; ++t) {
    const float *cos = a.cos + a.positions[t] * a.half, *sin = a.sin + a.positions[t] * a.half;
    T* x = static_cast<T*>(a.x) + t * a.num_heads * 2 * a.half;
    for (Index h = 0; h < a.num_heads; ++h, x += 2 * a.half) {
      for_vectors(a.half, [&](Index i, auto n) {
        const F c = load(cos + i, n), s = load(sin + i, n) * a.sign, first = load(x + i, n), second = load(x + a.half + i, n);
        store(x + i, first * c - second * s, n);
        store(x + a.half + i, second * c + first * s, n);
      });
    }
  }
}

template <class Unit> double peak(Index iterations, float* sink) {
  constexpr int kRows = kTileRows;
  F acc[kRows][kTileVectors];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kTileVectors; ++j) acc[i][j] = splat(static_cast<float>(i * kTileVectors + j));  // all different, or one would stand for all
  const U a = U{} + static_cast<std::uint32_t>(iterations & 1), b = a;
  for (Index k = 0; k < iterations; ++k) {
#pragma GCC unroll 14
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) acc[i][j] = multiply_add(Unit{}, a, b, acc[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kTileVectors; ++j) *sink += acc[i][j][0];
  return 2.0 * Unit::k_per_unit * kLanes * kRows * kTileVectors * static_cast<double>(iterations);
}
#if defined(__AVX512BF16__)
using Bf16Unit = Pairs;
#else
using Bf16Unit = Floats;
#endif

}  // namespace

const MiscTable kMiscTable = {{add<float>, add<Bf16>},
                              {{add_into<float, float>, add_into<float, Bf16>}, {add_into<Bf16, float>, add_into<Bf16, Bf16>}},
                              {clamp_forward<float>, clamp_forward<Bf16>},
                              {clamp_backward<float>, clamp_backward<Bf16>},
                              to_bf16,
                              to_f32,
                              {rope<float>, rope<Bf16>},
                              {peak<Floats>, peak<Bf16Unit>}};

}  // namespace optimus::cpu::OPTIMUS_ISA
