#pragma once
// One vector of floats of the width this file is compiled for, and little else. Included only by the sources in this folder, which are compiled once for each
// instruction set: everything sits in a namespace named after it, so the linker cannot take another build's copy, and no header with inline code is included.

#include <cstdint>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "optimus/backend/cpu/kernels/kernels.hpp"

namespace optimus::cpu::OPTIMUS_ISA {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

/// Storage of a bfloat16 (optimus/base/bf16.hpp has inline code, which must not be compiled here).
struct Bf16 {
  std::uint16_t bits;
};

typedef float F __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t I __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t U __attribute__((vector_size(4 * kLanes)));
typedef std::uint16_t H __attribute__((vector_size(2 * kLanes)));

/// How much of a vector a load or store touches: all of it, or the first n lanes (the others read as 0).
struct All {
  static constexpr int n = kLanes;
};
struct Some {
  int n;
};

/// Calls body(i, All{}) for every whole vector of [0, n), then body(i, Some{rest}) for what is left.
template <class Body> inline void for_vectors(Index n, Body&& body) {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, All{});
  if (i < n) body(i, Some{static_cast<int>(n - i)});
}

inline F splat(float x) { return F{} + x; }

inline F load(const float* p, All) {
  F v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, F v, All) { __builtin_memcpy(p, &v, sizeof v); }
inline U load_u(const std::uint32_t* p, All) {
  U v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store_u(std::uint32_t* p, U v, All) { __builtin_memcpy(p, &v, sizeof v); }
inline U load_u(const std::uint16_t* p, All) {
  H h;
  __builtin_memcpy(&h, p, sizeof h);
  return __builtin_convertvector(h, U);
}

#if defined(__AVX512F__)
inline __mmask16 mask_of(Some s) { return static_cast<__mmask16>((1U << s.n) - 1U); }
inline F load(const float* p, Some s) { return (F)_mm512_maskz_loadu_ps(mask_of(s), p); }
inline void store(float* p, F v, Some s) { _mm512_mask_storeu_ps(p, mask_of(s), (__m512)v); }
inline U load_u(const std::uint32_t* p, Some s) { return (U)_mm512_maskz_loadu_epi32(mask_of(s), p); }
inline void store_u(std::uint32_t* p, U v, Some s) { _mm512_mask_storeu_epi32(p, mask_of(s), (__m512i)v); }
inline U load_u(const std::uint16_t* p, Some s) { return (U)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask_of(s), p)); }
#else
inline F load(const float* p, Some s) {
  F v{};
  __builtin_memcpy(&v, p, 4 * static_cast<std::size_t>(s.n));
  return v;
}
inline void store(float* p, F v, Some s) { __builtin_memcpy(p, &v, 4 * static_cast<std::size_t>(s.n)); }
inline U load_u(const std::uint32_t* p, Some s) {
  U v{};
  __builtin_memcpy(&v, p, 4 * static_cast<std::size_t>(s.n));
  return v;
}
inline void store_u(std::uint32_t* p, U v, Some s) { __builtin_memcpy(p, &v, 4 * static_cast<std::size_t>(s.n)); }
inline U load_u(const std::uint16_t* p, Some s) {
  H h{};
  __builtin_memcpy(&h, p, 2 * static_cast<std::size_t>(s.n));
  return __builtin_convertvector(h, U);
}
#endif

template <class N> inline F load(const Bf16* p, N n) { return (F)(load_u(&p->bits, n) << 16); }

/// The upper halves, rounded to nearest even; NaN stays NaN. In the low 16 bits of each lane.
inline U round_bf16(F v) {
  const U u = (U)v;
  const U rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  return (v == v) ? rounded : ((u >> 16) | 0x40U);
}
inline void store_halves(Bf16* p, U v, All) {
  const H h = __builtin_convertvector(v, H);
  __builtin_memcpy(p, &h, sizeof h);
}
inline void store_halves(Bf16* p, U v, Some s) {
#if defined(__AVX512F__)
  _mm512_mask_cvtepi32_storeu_epi16(p, mask_of(s), (__m512i)v);
#else
  const H h = __builtin_convertvector(v, H);
  __builtin_memcpy(p, &h, 2 * static_cast<std::size_t>(s.n));
#endif
}
/// Rounded to nearest even. The processor's own conversion, where there is one, takes numbers below 1.2e-38 for 0.
#if defined(__AVX512BF16__)
inline void store(Bf16* p, F v, All) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh((__m512)v)); }
inline void store(Bf16* p, F v, Some s) { _mm256_mask_storeu_epi16(p, mask_of(s), (__m256i)_mm512_cvtneps_pbh((__m512)v)); }
#else
template <class N> inline void store(Bf16* p, F v, N n) { store_halves(p, round_bf16(v), n); }
#endif
/// The same for every number, as conversions of tensors promise.
template <class N> inline void store_exact(Bf16* p, F v, N n) { store_halves(p, round_bf16(v), n); }
template <class N> inline void store_exact(float* p, F v, N n) { store(p, v, n); }

inline float to_float(float x) { return x; }
inline float to_float(Bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }

/// a * b + c, fused where the instruction set can.
inline F fma(F a, F b, F c) {
#if defined(__AVX512F__)
  return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}
inline F sqrt(F v) {
#if defined(__AVX512F__)
  return (F)_mm512_sqrt_ps((__m512)v);
#elif defined(__AVX2__)
  return (F)_mm256_sqrt_ps((__m256)v);
#else
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}
/// The larger, the smaller; b where either is NaN.
#if defined(__AVX512F__)
inline F max(F a, F b) { return (F)_mm512_max_ps((__m512)a, (__m512)b); }
inline F min(F a, F b) { return (F)_mm512_min_ps((__m512)a, (__m512)b); }
#elif defined(__AVX2__)
inline F max(F a, F b) { return (F)_mm256_max_ps((__m256)a, (__m256)b); }
inline F min(F a, F b) { return (F)_mm256_min_ps((__m256)a, (__m256)b); }
#else
inline F max(F a, F b) { return a > b ? a : b; }
inline F min(F a, F b) { return a < b ? a : b; }
#endif
inline float sum(F v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float s = 0;
  for (int i = 0; i < kLanes; ++i) s += v[i];
  return s;
#endif
}
inline float max_lane(F v) {
  float m = v[0];
  for (int i = 1; i < kLanes; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
/// 0, 1, 2, …
inline I iota() {
  I lane{};
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane;
}
/// The first n lanes of v, `other` in the rest.
inline F keep(F v, All, float) { return v; }
inline F keep(F v, Some s, float other) { return iota() < s.n ? v : splat(other); }

/// e^x within 2 ulp; exactly 0 for -infinity, NaN stays.
inline F exp(F x) {
  constexpr float kLog2e = 1.44269504088896341F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F, kRound = 12582912.0F;
  const F bounded = min(splat(89.0F), max(splat(-104.0F), x));
  const F n = fma(bounded, splat(kLog2e), splat(kRound)) - kRound;
  const F r = fma(n, splat(-kLn2Low), fma(n, splat(-kLn2High), bounded));
  F p = splat(1.9875691500e-4F);
  p = fma(p, r, splat(1.3981999507e-3F));
  p = fma(p, r, splat(8.3334519073e-3F));
  p = fma(p, r, splat(4.1665795894e-2F));
  p = fma(p, r, splat(1.6666665459e-1F));
  p = fma(p, r, splat(5.0000001201e-1F));
  p = fma(p, r * r, r) + 1.0F;
#if defined(__AVX512F__)
  return (F)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  // Two factors: 2^n alone leaves the normal range at both ends.
  const I whole = __builtin_convertvector(n, I), half = whole >> 1;
  return p * (F)((half + 127) << 23) * (F)((whole - half + 127) << 23);
#endif
}
/// 1 / (1 + e^-x)
inline F sigmoid(F x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace optimus::cpu::OPTIMUS_ISA
