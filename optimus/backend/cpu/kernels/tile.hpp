#pragma once
// The heart of every matrix product here: packed panels and a register tile.
//
// Panels consist of 32-bit *units*: one float, or (kPairs, AVX-512 BF16 only) two bf16 that are consecutive in k. A panel of `width` rows is [units of k][width].
// c[m, n] = sum_k a(m, k) * b(n, k): a in panels of up to kTileRows, b in panels of kTileCols. Sums run over k in order, so a result does not depend on how
// rows and columns are divided.

#include "optimus/backend/cpu/kernels/simd.hpp"

namespace optimus::cpu::OPTIMUS_ISA {

inline constexpr int kTileRows = kLanes == 16 ? 14 : 6;
inline constexpr int kTileVectors = 2;  // put_part is written for two
inline constexpr int kTileCols = kTileVectors * kLanes;

#if defined(__AVX512BF16__)
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

/// What a unit holds when both sides are bf16 (kPairs where possible), else floats.
struct Floats {
  static constexpr int k_per_unit = 1;
};
struct Pairs {
  static constexpr int k_per_unit = 2;
};

inline Index units_of(Floats, Index depth) { return depth; }
inline Index units_of(Pairs, Index depth) { return (depth + 1) / 2; }

inline F multiply_add(Floats, U a, U b, F c) { return fma((F)a, (F)b, c); }
#if defined(__AVX512BF16__)
inline F multiply_add(Pairs, U a, U b, F c) { return (F)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b); }
#endif

/// Units of `n` lanes: unit u of a row of `left` elements from p on.
inline U load_row_units(Floats, const float* p, Index left) { return left >= kLanes ? (U)load(p, All{}) : (U)load(p, Some{static_cast<int>(left)}); }
inline U load_row_units(Floats, const Bf16* p, Index left) { return left >= kLanes ? (U)load(p, All{}) : (U)load(p, Some{static_cast<int>(left)}); }
#if defined(__AVX512BF16__)
inline U load_row_units(Pairs, const Bf16* p, Index left) {
  if (left >= 2 * kLanes) {
    U v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  return (U)_mm512_maskz_loadu_epi16(static_cast<__mmask32>((1ULL << left) - 1ULL), p);
}
#endif

/// Transposes a square of units in registers: each stage interleaves the first half of the rows with the second.
inline void transpose(U (&rows)[kLanes]) {
  U low, high;
  for (int i = 0; i < kLanes / 2; ++i) {
    low[2 * i] = static_cast<std::uint32_t>(i);
    low[2 * i + 1] = static_cast<std::uint32_t>(i + kLanes);
    high[2 * i] = static_cast<std::uint32_t>(i + kLanes / 2);
    high[2 * i + 1] = static_cast<std::uint32_t>(i + kLanes / 2 + kLanes);
  }
#pragma GCC unroll 4
  for (int stage = 1; stage < kLanes; stage *= 2) {
    U next[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + kLanes / 2], low);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kLanes / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

/// Packs a panel whose rows are rows of `src`: k runs along memory. `width` rows, the panel is `panel_width` wide, the rest 0.
template <class Unit, class T>
inline void pack_k_contiguous(Unit unit, const T* src, Index ld, int width, Index depth, std::uint32_t* panel, int panel_width) {
  constexpr Index kStep = kLanes * Unit::k_per_unit;
  for (int w = 0; w < panel_width; w += kLanes) {
    const Some lanes{panel_width - w < kLanes ? panel_width - w : kLanes};
    const int height = width - w < kLanes ? width - w : kLanes;
    std::uint32_t* out = panel + w;
    const T* from = src + w * ld;
    for (Index k = 0; k < depth; k += kStep, from += kStep, out += kLanes * panel_width) {
      U rows[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) rows[i] = i < height ? load_row_units(unit, from + i * ld, depth - k) : U{};
      transpose(rows);
      const Index units = (depth - k + Unit::k_per_unit - 1) / Unit::k_per_unit;
      if (units >= kLanes && lanes.n == kLanes) {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) store_u(out + i * panel_width, rows[i], All{});
      } else {
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i)
          if (i < units) store_u(out + i * panel_width, rows[i], lanes);
      }
    }
  }
}

/// One vector of units of a panel whose rows are columns of memory: from row k of `src` (and k + 1, if `has_next`).
template <class T, class N> inline U column_units(Floats, const T* p, Index, bool, N n) { return (U)load(p, n); }
template <class N> inline U column_units(Pairs, const Bf16* p, Index ld, bool has_next, N n) {
  const U low = load_u(&p->bits, n);
  return has_next ? (load_u(&p[ld].bits, n) << 16) | low : low;
}

/// Rows cut into panels of nearly equal height: a short last panel would run at the speed of a full one.
struct RowPanels {
  Index rows, count;
  explicit RowPanels(Index rows_) : rows(rows_), count((rows_ + kTileRows - 1) / kTileRows) {}
  [[nodiscard]] Index begin(Index panel) const { return panel * (rows / count) + (panel < rows % count ? panel : rows % count); }
  [[nodiscard]] int height(Index panel) const { return static_cast<int>(rows / count + (panel < rows % count ? 1 : 0)); }
};

/// Packs `rows` rows of `src` as row panels; k runs along them.
template <class Unit, class T> inline void pack_rows(Unit unit, const T* src, Index ld, Index rows, Index depth, std::uint32_t* panels) {
  const RowPanels cut(rows);
  for (Index p = 0; p < cut.count; ++p)
    pack_k_contiguous(unit, src + cut.begin(p) * ld, ld, cut.height(p), depth, panels + cut.begin(p) * units_of(unit, depth), cut.height(p));
}

/// Packs `cols` rows of `src` as panels of kTileCols columns; k runs along them.
template <class Unit, class T> inline void pack_cols(Unit unit, const T* src, Index ld, Index cols, Index depth, std::uint32_t* panels) {
  for (Index w = 0; w < cols; w += kTileCols) {
    const int have = static_cast<int>(cols - w < kTileCols ? cols - w : kTileCols);
    pack_k_contiguous(unit, src + w * ld, ld, have, depth, panels + w * units_of(unit, depth), kTileCols);
  }
}

/// The same for sides whose rows are columns of `src`, k running from row to row. Memory is walked once, row by row: a panel at a time would touch a page for
/// every few numbers.
template <class Unit, class T> inline void pack_rows_strided(Unit unit, const T* src, Index ld, Index rows, Index depth, std::uint32_t* panels) {
  const RowPanels cut(rows);
  const Index units = units_of(unit, depth), num_high = rows % cut.count;
  const int low = static_cast<int>(rows / cut.count);
  for (Index k = 0, u = 0; k < depth; k += Unit::k_per_unit, ++u) {
    const T* row = src + k * ld;
    std::uint32_t* panel = panels;
    const auto pack_panels = [&](Index count, int height) {
      for (int w = 0; w < kTileRows; w += kLanes) {
        const Some lanes{height - w < kLanes ? height - w : kLanes};
        if (lanes.n <= 0) break;
        for (Index p = 0; p < count; ++p)
          store_u(panel + p * units * height + u * height + w, column_units(unit, row + p * height + w, ld, k + 1 < depth, lanes), lanes);
      }
      row += count * height;
      panel += count * units * height;
    };
    pack_panels(num_high, low + 1);
    pack_panels(cut.count - num_high, low);
  }
}

/// kTileCols columns of one unit of k.
template <class Unit, class T> inline void pack_whole_columns(Unit unit, const T* row, Index ld, bool has_next, std::uint32_t* out) {
  for (int w = 0; w < kTileCols; w += kLanes) store_u(out + w, column_units(unit, row + w, ld, has_next, All{}), All{});
}
#if defined(__AVX512BF16__)
inline void pack_whole_columns(Pairs, const Bf16* row, Index ld, bool has_next, std::uint32_t* out) {
  alignas(64) static constexpr std::uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                         8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) static constexpr std::uint16_t kHigh[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                          24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  const __m512i first = _mm512_loadu_si512(row), second = has_next ? _mm512_loadu_si512(row + ld) : _mm512_setzero_si512();
  _mm512_storeu_si512(out, _mm512_permutex2var_epi16(first, _mm512_load_si512(kLow), second));
  _mm512_storeu_si512(out + kLanes, _mm512_permutex2var_epi16(first, _mm512_load_si512(kHigh), second));
}
#endif
template <class Unit, class T> inline void pack_cols_strided(Unit unit, const T* src, Index ld, Index cols, Index depth, std::uint32_t* panels) {
  const Index units = units_of(unit, depth), whole = cols / kTileCols * kTileCols;
  for (Index k = 0, u = 0; k < depth; k += Unit::k_per_unit, ++u) {
    const T* row = src + k * ld;
    const bool has_next = k + 1 < depth;
    for (Index w = 0; w < whole; w += kTileCols) pack_whole_columns(unit, row + w, ld, has_next, panels + w * units + u * kTileCols);
    std::uint32_t* last = panels + whole * units + u * kTileCols;
    for (Index w = whole; w < cols; w += kLanes, last += kLanes)
      store_u(
          last,
          cols - w >= kLanes ? column_units(unit, row + w, ld, has_next, All{}) : column_units(unit, row + w, ld, has_next, Some{static_cast<int>(cols - w)}),
          All{});
    if (cols > whole && cols - whole <= kLanes) store_u(last, U{}, All{});
  }
}

/// Where a register tile goes: `cols` columns of rows that are ld apart.
struct TileOut {
  void* c;
  Index ld;
  int cols;
  bool is_bf16, accumulate;
};

template <class T, class N> inline void put(T* c, F value, bool accumulate, N n) {
  if (accumulate) value += load(c, n);
  store(c, value, n);
}
/// Stores a tile from registers: every index is a constant once unrolled, and must be, or the compiler spills the whole tile.
template <bool kAccumulate, int Rows, class T> [[gnu::always_inline]] inline void put_tile(const F (&acc)[Rows][kTileVectors], T* c, Index ld) {
#pragma GCC unroll 14
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) put(c + i * ld + j * kLanes, acc[i][j], kAccumulate, All{});
  }
}
template <int Rows, class T> [[gnu::always_inline]] inline void put_part(const F (&acc)[Rows][kTileVectors], T* c, Index ld, int cols, bool accumulate) {
#pragma GCC unroll 14
  for (int i = 0; i < Rows; ++i) {
    if (cols >= kLanes) put(c + i * ld, acc[i][0], accumulate, All{});
    else put(c + i * ld, acc[i][0], accumulate, Some{cols});
    if (cols > kLanes) put(c + i * ld + kLanes, acc[i][1], accumulate, Some{cols - kLanes});
  }
}

/// The register tile: `Rows` x kTileCols sums over `units` steps.
template <class Unit, int Rows> inline void accumulate_tile(Unit unit, const std::uint32_t* a, const std::uint32_t* b, Index units,
                                                            F (&acc)[Rows][kTileVectors]) {
  for (Index k = 0; k < units; ++k, a += Rows, b += kTileCols) {
    U b_k[kTileVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kTileVectors; ++j) b_k[j] = load_u(b + j * kLanes, All{});
#pragma GCC unroll 14
    for (int i = 0; i < Rows; ++i) {
      const U a_ik = U{} + a[i];
#pragma GCC unroll 2
      for (int j = 0; j < kTileVectors; ++j) acc[i][j] = multiply_add(unit, a_ik, b_k[j], acc[i][j]);
    }
  }
}

template <class Unit, int Rows> [[gnu::noinline]] void tile(const std::uint32_t* a, const std::uint32_t* b, Index units, const TileOut& out) {
  const TileOut to = out;
  auto* c = static_cast<char*>(to.c);
  for (int i = 0; i < Rows; ++i) __builtin_prefetch(c + i * to.ld * (to.is_bf16 ? 2 : 4), 1);
  F acc[Rows][kTileVectors] = {};
  accumulate_tile<Unit, Rows>(Unit{}, a, b, units, acc);
  if (to.cols < kTileCols) {
    if (to.is_bf16) put_part(acc, static_cast<Bf16*>(to.c), to.ld, to.cols, to.accumulate);
    else put_part(acc, static_cast<float*>(to.c), to.ld, to.cols, to.accumulate);
  } else if (to.is_bf16) {
    if (to.accumulate) put_tile<true>(acc, static_cast<Bf16*>(to.c), to.ld);
    else put_tile<false>(acc, static_cast<Bf16*>(to.c), to.ld);
  } else {
    if (to.accumulate) put_tile<true>(acc, static_cast<float*>(to.c), to.ld);
    else put_tile<false>(acc, static_cast<float*>(to.c), to.ld);
  }
}

using TileFunction = void (*)(const std::uint32_t* a, const std::uint32_t* b, Index units, const TileOut& out);
/// tile<Unit, rows> for rows in [1, kTileRows].
template <class Unit> inline TileFunction tile_of(int rows) {
  static constexpr TileFunction kTiles[] = {
      tile<Unit, 1>, tile<Unit, 2>, tile<Unit, 3>, tile<Unit, 4>,  tile<Unit, 5>,  tile<Unit, 6>,
#if defined(__AVX512F__)
      tile<Unit, 7>, tile<Unit, 8>, tile<Unit, 9>, tile<Unit, 10>, tile<Unit, 11>, tile<Unit, 12>, tile<Unit, 13>, tile<Unit, 14>,
#endif
  };
  return kTiles[rows - 1];
}

}  // namespace optimus::cpu::OPTIMUS_ISA
