#include "optimus/comm/local_reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

// The loops below are plain; the compiler makes a version for each instruction set and the loader picks one. Contraction is off
// everywhere, so the versions agree to the last bit. Sanitizers cannot live with functions resolved that early.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPTIMUS_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OPTIMUS_FOR_EACH_CPU
#endif

namespace optimus {
namespace {

/// Elements summed at a time: the accumulators stay in the first-level cache.
constexpr Index kBlock = 2048;

template <class T> struct Accumulator {
  using type = T;
};
template <> struct Accumulator<BFloat16> {
  using type = float;
};

template <class A>
[[gnu::always_inline]] inline bool is_nan(A value) {
  if constexpr (std::is_floating_point_v<A>) return std::isnan(value);
  return false;
}

template <Reduce reduce, class A>
[[gnu::always_inline]] inline A combine(A a, A b) {
  if constexpr (reduce == Reduce::kSum && std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else if constexpr (reduce == Reduce::kSum) {
    return a + b;
  } else if constexpr (reduce == Reduce::kMax) {
    return (a > b || is_nan(a)) ? a : b;
  } else {
    return (a < b || is_nan(a)) ? a : b;
  }
}

template <class T, Reduce reduce>
[[gnu::always_inline]] inline void reduce_typed(std::span<const std::byte* const> sources, Index count, std::byte* output) {
  using A = typename Accumulator<T>::type;
  std::array<A, kBlock> sum;
  for (Index begin = 0; begin < count; begin += kBlock) {
    const Index n = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
    for (Index i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] = static_cast<A>(first[i]);
    for (std::size_t m = 1; m < sources.size(); ++m) {
      const T* next = reinterpret_cast<const T*>(sources[m]) + begin;
      for (Index i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] = combine<reduce>(sum[static_cast<std::size_t>(i)], static_cast<A>(next[i]));
    }
    T* out = reinterpret_cast<T*>(output) + begin;
    for (Index i = 0; i < n; ++i) out[i] = static_cast<T>(sum[static_cast<std::size_t>(i)]);
  }
}

template <Reduce reduce>
[[gnu::always_inline]] inline void reduce_any(std::span<const std::byte* const> sources, DType dtype, Index count, std::byte* output) {
  switch (dtype) {
    case DType::kF64: return reduce_typed<double, reduce>(sources, count, output);
    case DType::kF32: return reduce_typed<float, reduce>(sources, count, output);
    case DType::kBF16: return reduce_typed<BFloat16, reduce>(sources, count, output);
    case DType::kI64: return reduce_typed<std::int64_t, reduce>(sources, count, output);
    case DType::kI32: return reduce_typed<std::int32_t, reduce>(sources, count, output);
    default: check_reducible(dtype);
  }
}

using Sources = std::span<const std::byte* const>;
OPTIMUS_FOR_EACH_CPU void sum_sources(Sources sources, DType dtype, Index count, std::byte* output) { reduce_any<Reduce::kSum>(sources, dtype, count, output); }
OPTIMUS_FOR_EACH_CPU void max_sources(Sources sources, DType dtype, Index count, std::byte* output) { reduce_any<Reduce::kMax>(sources, dtype, count, output); }
OPTIMUS_FOR_EACH_CPU void min_sources(Sources sources, DType dtype, Index count, std::byte* output) { reduce_any<Reduce::kMin>(sources, dtype, count, output); }

}  // namespace

void check_reducible(DType dtype) {
  const bool is_reducible = dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kI64 || dtype == DType::kI32;
  if (!is_reducible) throw UnsupportedError(fmt::format("[comm] no reduction of {} elements; convert to f64, f32, bf16, i64 or i32 first", dtype_name(dtype)));
}

void reduce_in_order(std::span<const std::byte* const> sources, DType dtype, Reduce reduce, Index count, std::byte* output) {
  switch (reduce) {
    case Reduce::kSum: return sum_sources(sources, dtype, count, output);
    case Reduce::kMax: return max_sources(sources, dtype, count, output);
    case Reduce::kMin: return min_sources(sources, dtype, count, output);
  }
}

}  // namespace optimus
