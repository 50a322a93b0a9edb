// Attention backward: probabilities are made again from the scores and the saved log-sum-exp. One key/value head of one sequence at a time, so that the
// gradients of its keys and values are summed by one thread, in order.
//
//   p = exp(s * scale - lse);   dv += p^T do;   ds = p * (v do - delta) * scale, delta = <do, o>;   dq += ds k;   dk += ds^T q

#include "optimus/backend/cpu/kernels/attention_tiles.hpp"
#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

/// Two rows of one vector of queries into rows that are kQueryBlock apart.
inline void put_rows(float* rows, F first, F second) {
  store(rows, first, All{});
  store(rows + kQueryBlock, second, All{});
}
#if defined(__AVX512BF16__)
inline void put_rows(Bf16* rows, F first, F second) {
  const auto both = (__m512i)rounded_rows(first, second);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows), _mm512_castsi512_si256(both));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + kQueryBlock), _mm512_extracti64x4_epi64(both, 1));
}
#endif

template <class T> struct Backward {
  using Unit = typename UnitsOf<T>::Unit;
  using Stored = typename UnitsOf<T>::Stored;
  Unit unit;
  Index A, deep;  // deep: units of one row of A
  float scale;
  float *dk, *dv;                               // [keys][A], sums over all queries
  std::uint32_t *q_units, *do_units;            // a query a column, k along A
  std::uint32_t *q_rows_units, *do_rows_units;  // an element of A a column, k along queries
  std::uint32_t *k_units, *v_units, *k_rows_units, *ds_units, *tall_units;
  Stored *p_rows, *ds_rows;  // [kKeyBlock][kQueryBlock]
  float *scores, *dp, *dq, *lse, *delta;

  explicit Backward(Index head_size) : unit(), A(head_size), deep(units_of(unit, head_size)), scale(1.0F / __builtin_sqrtf(static_cast<float>(head_size))) {}
  Index carve(void* memory, Index keys) {
    Carver carver{reinterpret_cast<std::uintptr_t>(memory)};
    const Index wide = (A + kTileCols - 1) / kTileCols * kTileCols;
    carver.take(keys * A, dk, dv);
    carver.take(kQueryBlock * deep, q_units, do_units);
    carver.take(kQueryBlock * wide, q_rows_units, do_rows_units);
    carver.take(kKeyBlock * A, k_units, v_units, k_rows_units);
    carver.take(kKeyBlock * kTileCols, ds_units);
    carver.take(kKeyBlock * kQueryBlock, tall_units);
    carver.take(kKeyBlock * kQueryBlock, p_rows, ds_rows);
    carver.take(kKeyBlock * kTileCols, scores, dp);
    carver.take(kQueryBlock * A, dq);
    carver.take(kQueryBlock, lse, delta);
    return static_cast<Index>(carver.next - reinterpret_cast<std::uintptr_t>(memory));
  }

  /// delta and lse of a block of queries; lanes without a query get probability 0.
  void prepare(const AttentionArgs& a, Index head, const Queries& queries, const T* d_o, const T* o) {
    const Index ld = a.heads * A, count = queries.end - queries.begin;
    for (Index i = 0; i < kQueryBlock; ++i) lse[i] = kInfinity, delta[i] = 0.0F;
    for (Index i = 0; i < count; ++i) {
      F dot{};
      for_vectors(A, [&](Index d, auto n) { dot = fma(load(d_o + i * ld + d, n), load(o + i * ld + d, n), dot); });
      delta[i] = sum(dot);
      lse[i] = a.saved_lse[(queries.batch * a.heads + head) * a.queries + queries.begin + i];
    }
    for (Index i = 0; i < kQueryBlock * A; i += kLanes) store(dq + i, F{}, All{});
  }

  /// Probabilities and score gradients of one vector of queries; rows of keys from `seen` on become 0.
  template <bool kMasked> void gradients(Index panel, int j, Index key_begin, Index keys, Index seen, const Mask& mask) {
    const Index query = panel * kTileCols + j * kLanes;
    const F lse_j = load(lse + query, All{}), delta_j = load(delta + query, All{});
    const float *score = scores + j * kLanes, *dp_j = dp + j * kLanes;
    const auto probability = [&](Index i) {
      F s = load(score + i * kTileCols, All{}) * scale - lse_j;
      if constexpr (kMasked) s = mask.apply(s, key_begin + i, j, -kInfinity);
      return exp(s);
    };
    const auto gradient = [&](Index i, F p) { return p * (load(dp_j + i * kTileCols, All{}) - delta_j) * scale; };
    Stored *p_row = p_rows + query, *ds_row = ds_rows + query;
    std::uint32_t* units = ds_units + j * kLanes;
    for (Index i = 0; i < seen; i += 2, units += 2 / Unit::k_per_unit * kTileCols) {
      const bool has_second = i + 1 < seen;
      const F p0 = probability(i), p1 = has_second ? probability(i + 1) : F{};
      const F ds0 = gradient(i, p0), ds1 = has_second ? gradient(i + 1, p1) : F{};
      put_rows(p_row + i * kQueryBlock, p0, p1);
      put_rows(ds_row + i * kQueryBlock, ds0, ds1);
      put_units(unit, units, ds0, ds1);
    }
    for (Index i = (seen + 1) / 2 * 2; i < keys; i += 2) {
      put_rows(p_row + i * kQueryBlock, F{}, F{});
      put_rows(ds_row + i * kQueryBlock, F{}, F{});
    }
  }

  /// sums[keys, A] += rows[keys, queries of the panels] * columns
  void add_tall(const Stored* rows, Index keys, Index first_panel, Index num_panels, const std::uint32_t* columns, float* sums) {
    const Index queries = num_panels * kTileCols, units = units_of(unit, queries), all_units = units_of(unit, Index{kQueryBlock});
    pack_rows(unit, rows + first_panel * kTileCols, kQueryBlock, keys, queries, tall_units);
    for (Index d = 0; d < A; d += kTileCols) {
      const int cols = static_cast<int>(A - d < kTileCols ? A - d : kTileCols);
      multiply<Unit>({tall_units, keys, units}, keys, columns + d * all_units + units_of(unit, first_panel * kTileCols) * kTileCols, units,
                     {sums + d, A, cols, false, true});
    }
  }

  void key_block(const Queries& queries, const T* k, const T* v, Index ld, Index key, Index keys) {
    Index first = 0, last = queries.num_panels();
    while (first < last && !queries.sees(first, key, key + keys)) ++first;
    while (last > first && !queries.sees(last - 1, key, key + keys)) --last;
    if (first == last) return;
    const Index key_units = units_of(unit, keys);
    pack_rows(unit, k + key * ld, ld, keys, A, k_units);
    pack_rows(unit, v + key * ld, ld, keys, A, v_units);
    pack_rows_strided(unit, k + key * ld, ld, A, keys, k_rows_units);
    for (Index panel = first; panel < last; ++panel) {
      const Index seen = queries.num_seen(panel, key, key + keys);
      multiply<Unit>({k_units, keys, deep}, seen, q_units + panel * kTileCols * deep, deep, {scores, kTileCols, kTileCols, false, false});
      multiply<Unit>({v_units, keys, deep}, seen, do_units + panel * kTileCols * deep, deep, {dp, kTileCols, kTileCols, false, false});
      const Mask mask(queries, panel, key, key + seen);
      for (int j = 0; j < kTileVectors; ++j) {
        if (mask.is_needed) gradients<true>(panel, j, key, keys, seen, mask);
        else gradients<false>(panel, j, key, keys, seen, mask);
      }
      multiply<Unit>({k_rows_units, A, key_units}, A, ds_units, units_of(unit, seen), {dq + panel * kTileCols * A, kTileCols, kTileCols, false, true});
    }
    add_tall(p_rows, keys, first, last - first, do_rows_units, dv + key * A);
    add_tall(ds_rows, keys, first, last - first, q_rows_units, dk + key * A);
  }

  void query_block(const AttentionArgs& a, Index head, const Queries& queries, const T* k, const T* v) {
    const Index ld = a.heads * A, row = (queries.batch * a.queries + queries.begin) * ld + head * A, count = queries.end - queries.begin;
    const T *q = static_cast<const T*>(a.q) + row, *d_o = static_cast<const T*>(a.d_o) + row;
    prepare(a, head, queries, d_o, static_cast<const T*>(a.o) + row);
    pack_cols(unit, q, ld, count, A, q_units);
    pack_cols(unit, d_o, ld, count, A, do_units);
    pack_tall(q, ld, count, q_rows_units);
    pack_tall(d_o, ld, count, do_rows_units);
    const Index last_key = queries.position(queries.end - 1) + 1;
    for (Index key = queries.lowest_key(queries.begin, queries.end) / kKeyBlock * kKeyBlock; key < last_key; key += kKeyBlock)
      key_block(queries, k, v, a.kv_heads * A, key, last_key - key < kKeyBlock ? last_key - key : kKeyBlock);
    F one[kTileVectors];
    for (F& factor : one) factor = splat(1.0F);
    for (Index panel = 0; panel < queries.num_panels(); ++panel) {
      const Index first = panel * kTileCols;
      write_transposed(dq + first * A, A, one, count - first, static_cast<T*>(a.dq) + row + first * ld, ld);
    }
  }
  /// Panels with k along the queries, a block of kQueryBlock of them whatever `count`: 0 where there is no query, for 0 times what was left in memory may be NaN.
  void pack_tall(const T* data, Index ld, Index count, std::uint32_t* panels) {
    const Index units = units_of(unit, Index{kQueryBlock}), whole = count / kQueryBlock * kQueryBlock;
    if (whole == count) return pack_cols_strided(unit, data, ld, A, count, panels);
    for (Index d = 0; d < A; d += kTileCols) {
      std::uint32_t* panel = panels + d * units;
      const Index used = units_of(unit, count) * kTileCols;
      pack_cols_strided(unit, data + d, ld, A - d < kTileCols ? A - d : Index{kTileCols}, count, panel);
      for (Index u = used; u < units * kTileCols; u += kLanes) store_u(panel + u, U{}, All{});
    }
  }

  void run(const AttentionArgs& a, Index batch, Index kv_head) {
    const Index group = a.heads / a.kv_heads, ld = a.kv_heads * A, offset = batch * a.keys * ld + kv_head * A;
    for_vectors(a.keys * A, [&](Index i, auto n) { store(dk + i, F{}, n), store(dv + i, F{}, n); });
    for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (Index begin = 0; begin < a.queries; begin += kQueryBlock) {
        const Index end = begin + kQueryBlock < a.queries ? begin + kQueryBlock : a.queries;
        query_block(a, head, {a, batch, begin, end}, static_cast<const T*>(a.k) + offset, static_cast<const T*>(a.v) + offset);
      }
    }
    for (Index j = 0; j < a.keys; ++j) {
      for_vectors(A, [&](Index d, auto n) {
        store(static_cast<T*>(a.dk) + offset + j * ld + d, load(dk + j * A + d, n), n);
        store(static_cast<T*>(a.dv) + offset + j * ld + d, load(dv + j * A + d, n), n);
      });
    }
  }
};

template <class T> void backward(const AttentionArgs& a, Index batch, Index kv_head, void* scratch) {
  Backward<T> work(a.head_size);
  work.carve(scratch, a.keys);
  work.run(a, batch, kv_head);
}

Index scratch_bytes(Index keys, Index head_size) { return Backward<float>(head_size).carve(nullptr, keys); }

}  // namespace

const AttentionBackwardTable kAttentionBackwardTable = {{backward<float>, backward<Bf16>}, scratch_bytes};

}  // namespace optimus::cpu::OPTIMUS_ISA
