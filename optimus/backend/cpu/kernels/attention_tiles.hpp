#pragma once
// What both directions of attention share: the geometry of blocks, masks, and scores as tiles with one query a lane.
//
// A tile of scores is [keys][kTileCols queries]: soft-max then runs along rows, without any sum across lanes, and probabilities are already in the layout in
// which they are multiplied by the values.

#include "optimus/backend/cpu/kernels/tile.hpp"

namespace optimus::cpu::OPTIMUS_ISA {

inline constexpr int kKeyBlock = 64, kQueryBlock = 256, kQueryPanels = kQueryBlock / kTileCols;
inline constexpr float kInfinity = __builtin_inff();

/// Units and storage of probabilities for tensors of T.
template <class T> struct UnitsOf {
  using Unit = Floats;
  using Stored = float;
};
#if defined(__AVX512BF16__)
template <> struct UnitsOf<Bf16> {
  using Unit = Pairs;
  using Stored = Bf16;
};
#endif

/// Cuts scratch memory into cache-line aligned pieces; starting from 0 it measures.
struct Carver {
  std::uintptr_t next;
  template <class... Piece> void take(Index count, Piece*&... pieces) { (take_one(count, pieces), ...); }
  template <class Piece> void take_one(Index count, Piece*& piece) {
    piece = reinterpret_cast<Piece*>(next);
    next += (static_cast<std::uintptr_t>(count) * sizeof(Piece) + 63) / 64 * 64;
  }
};

/// The queries [begin, end) of one sequence, cut into panels of kTileCols lanes.
struct Queries {
  const AttentionArgs& args;
  Index batch, begin, end;
  [[nodiscard]] Index offset() const { return args.keys - args.queries; }
  [[nodiscard]] Index position(Index query) const { return offset() + query; }
  [[nodiscard]] Index num_panels() const { return (end - begin + kTileCols - 1) / kTileCols; }
  [[nodiscard]] Index panel_begin(Index panel) const { return begin + panel * kTileCols; }
  [[nodiscard]] Index panel_end(Index panel) const { return panel_begin(panel + 1) < end ? panel_begin(panel + 1) : end; }
  /// First key that a query may see.
  [[nodiscard]] Index first_key(Index query) const { return args.document_start == nullptr ? 0 : args.document_start[batch * args.keys + position(query)]; }
  [[nodiscard]] Index lowest_key(Index from, Index to) const {
    if (args.document_start == nullptr) return 0;
    Index lowest = first_key(from);
    for (Index q = from; q < to; ++q) lowest = first_key(q) < lowest ? first_key(q) : lowest;
    return lowest;
  }
  /// How many of the keys from key_begin to key_end some query of the panel sees (or comes after).
  [[nodiscard]] Index num_seen(Index panel, Index key_begin, Index key_end) const {
    const Index after = position(panel_end(panel) - 1) + 1;
    return (after < key_end ? after : key_end) - key_begin;
  }
  [[nodiscard]] bool sees(Index panel, Index key_begin, Index key_end) const {
    return position(panel_end(panel) - 1) >= key_begin && lowest_key(panel_begin(panel), panel_end(panel)) < key_end;
  }
};

/// Which keys the queries of one panel see; `is_needed` only if some key of the block is hidden from some query.
struct Mask {
  I position[kTileVectors], first[kTileVectors];
  bool is_needed;

  Mask(const Queries& queries, Index panel, Index key_begin, Index key_end) {
    const Index begin = queries.panel_begin(panel), last = queries.panel_end(panel) - 1;
    is_needed = key_end - 1 > queries.position(begin);
    const auto first_position = static_cast<std::int32_t>(queries.position(begin));
    for (int j = 0; j < kTileVectors; ++j) position[j] = iota() + first_position + j * kLanes, first[j] = I{};
    if (queries.args.document_start == nullptr) return;
    for (int lane = 0; lane < kTileCols; ++lane) {
      const Index first_key = queries.first_key(begin + lane < last ? begin + lane : last);
      first[lane / kLanes][lane % kLanes] = static_cast<std::int32_t>(first_key);
      is_needed = is_needed || first_key > key_begin;
    }
  }
  [[nodiscard]] F apply(F score, Index key, int j, float hidden) const {
    const auto k = static_cast<std::int32_t>(key);
    const F seen = position[j] >= k ? score : splat(hidden);
    return first[j] <= k ? seen : splat(hidden);
  }
};

/// A packed side of row panels: `rows` rows, `units` deep.
struct PackedRows {
  const std::uint32_t* panels;
  Index rows, units;
};
/// c[rows, cols] (+)= a * b for one packed panel b, over the first `units` of k and at least the first `rows` rows.
template <class Unit> void multiply(const PackedRows& a, Index rows, const std::uint32_t* b, Index units, const TileOut& c) {
  const RowPanels cut(a.rows);
  for (Index p = 0; p < cut.count && cut.begin(p) < rows; ++p)
    tile_of<Unit>(cut.height(p))(a.panels + cut.begin(p) * a.units, b, units,
                                 {static_cast<float*>(c.c) + cut.begin(p) * c.ld, c.ld, c.cols, false, c.accumulate});
}

/// Writes a [width][kTileCols] tile, query a lane, as rows of `out`: query `lane` at out + lane * ld.
template <class T> void write_transposed(const float* tile, Index width, const F (&factor)[kTileVectors], Index num_queries, T* out, Index ld) {
  for (int j = 0; j < kTileVectors; ++j) {
    for (Index d = 0; d < width; d += kLanes) {
      U rows[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) rows[i] = d + i < width ? (U)(load(tile + (d + i) * kTileCols + j * kLanes, All{}) * factor[j]) : U{};
      transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (j * kLanes + i >= num_queries) break;
        T* row = out + (j * kLanes + i) * ld + d;
        if (width - d >= kLanes) store(row, (F)rows[i], All{});
        else store(row, (F)rows[i], Some{static_cast<int>(width - d)});
      }
    }
  }
}

/// Two rows of scores (keys 2i and 2i + 1) of one vector of queries into the unit rows from `units` on.
inline void put_units(Floats, std::uint32_t* units, F first, F second) {
  store_u(units, (U)first, All{});
  store_u(units + kTileCols, (U)second, All{});
}
#if defined(__AVX512BF16__)
inline U rounded_rows(F first, F second) { return (U)(__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first); }
inline void put_units(Pairs, std::uint32_t* units, F first, F second) {
  alignas(64) static constexpr std::uint16_t kInterleave[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                                8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  store_u(units, (U)_mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), (__m512i)rounded_rows(first, second)), All{});
}
#endif

}  // namespace optimus::cpu::OPTIMUS_ISA
