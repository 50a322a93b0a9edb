// Attention forward: blocks of keys pass by a block of queries, which keeps a running maximum, sum and output (Dao 2023, arXiv:2307.08691).

#include "optimus/backend/cpu/kernels/attention_tiles.hpp"
#include "optimus/backend/cpu/kernels/tables.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

template <class T> struct Forward {
  using Unit = typename UnitsOf<T>::Unit;
  Unit unit;
  Index A, q_units_deep;  // units of one query
  float scale;
  std::uint32_t *q_units, *k_units, *v_units, *p_units;
  float *scores, *o, *top, *total;  // o: a [A][kTileCols] tile for each panel; top, total: running maximum and sum of each query

  explicit Forward(Index head_size)
      : unit(), A(head_size), q_units_deep(units_of(unit, head_size)), scale(1.0F / __builtin_sqrtf(static_cast<float>(head_size))) {}
  Index carve(void* memory) {
    Carver carver{reinterpret_cast<std::uintptr_t>(memory)};
    carver.take(kQueryBlock * q_units_deep, q_units);
    carver.take(kKeyBlock * A, k_units, v_units);
    carver.take(kKeyBlock * kTileCols, p_units);
    carver.take(kKeyBlock * kTileCols, scores);
    carver.take(kQueryBlock * A, o);
    carver.take(kQueryBlock, top, total);
    return static_cast<Index>(carver.next - reinterpret_cast<std::uintptr_t>(memory));
  }

  /// Multiplies the output of a panel by what its older parts are worth under the new maximum.
  void rescale(float* o_panel, F factor, int j) const {
    for (Index d = 0; d < A; ++d) store(o_panel + d * kTileCols + j * kLanes, load(o_panel + d * kTileCols + j * kLanes, All{}) * factor, All{});
  }

  /// Scores to probabilities under the running maximum, for one vector of queries.
  template <bool kMasked> void softmax(Index panel, int j, Index key_begin, Index keys, const Mask& mask, bool is_first) {
    float* column = scores + j * kLanes;
    F largest = splat(-kInfinity);
    for (Index i = 0; i < keys; ++i) {
      F s = load(column + i * kTileCols, All{}) * scale;
      if constexpr (kMasked) s = mask.apply(s, key_begin + i, j, -kInfinity);
      store(column + i * kTileCols, s, All{});
      largest = max(s, largest);
    }
    float *top_j = top + panel * kTileCols + j * kLanes, *total_j = total + panel * kTileCols + j * kLanes;
    const F old_top = is_first ? splat(-kInfinity) : load(top_j, All{}), new_top = max(largest, old_top);
    const F base = new_top == -kInfinity ? F{} : new_top;  // nothing seen yet: all are e^-infinity
    const F factor = exp(old_top - base);
    F sum_j = is_first ? F{} : load(total_j, All{}) * factor;
    std::uint32_t* units = p_units + j * kLanes;
    for (Index i = 0; i < keys; i += 2, units += 2 / Unit::k_per_unit * kTileCols) {
      const F first = exp(load(column + i * kTileCols, All{}) - base);
      const F second = i + 1 < keys ? exp(load(column + (i + 1) * kTileCols, All{}) - base) : F{};
      sum_j += first + second;
      put_units(unit, units, first, second);
    }
    store(top_j, new_top, All{});
    store(total_j, sum_j, All{});
    if (!is_first) rescale(o + panel * kTileCols * A, factor, j);
  }

  /// One block of keys and values, packed, meets one panel of queries.
  void meet(const Queries& queries, Index panel, Index key, Index keys, bool is_first) {
    const Index seen = queries.num_seen(panel, key, key + keys), value_units = units_of(unit, keys);
    multiply<Unit>({k_units, keys, q_units_deep}, seen, q_units + panel * kTileCols * q_units_deep, q_units_deep, {scores, kTileCols, kTileCols, false, false});
    const Mask mask(queries, panel, key, key + seen);
    for (int j = 0; j < kTileVectors; ++j) {
      if (mask.is_needed) softmax<true>(panel, j, key, seen, mask, is_first);
      else softmax<false>(panel, j, key, seen, mask, is_first);
    }
    multiply<Unit>({v_units, A, value_units}, A, p_units, units_of(unit, seen), {o + panel * kTileCols * A, kTileCols, kTileCols, false, !is_first});
  }

  void run(const AttentionArgs& a, Index head, const Queries& queries) {
    const Index q_ld = a.heads * A, kv_ld = a.kv_heads * A, kv_head = head / (a.heads / a.kv_heads);
    const T* q = static_cast<const T*>(a.q) + (queries.batch * a.queries + queries.begin) * q_ld + head * A;
    const T *k = static_cast<const T*>(a.k) + queries.batch * a.keys * kv_ld + kv_head * A,
            *v = static_cast<const T*>(a.v) + queries.batch * a.keys * kv_ld + kv_head * A;
    pack_cols(unit, q, q_ld, queries.end - queries.begin, A, q_units);
    bool is_first[kQueryPanels];
    for (bool& is_first_panel : is_first) is_first_panel = true;
    const Index last_key = queries.position(queries.end - 1) + 1;
    for (Index key = queries.lowest_key(queries.begin, queries.end) / kKeyBlock * kKeyBlock; key < last_key; key += kKeyBlock) {
      const Index keys = last_key - key < kKeyBlock ? last_key - key : kKeyBlock;
      pack_rows(unit, k + key * kv_ld, kv_ld, keys, A, k_units);
      pack_rows_strided(unit, v + key * kv_ld, kv_ld, A, keys, v_units);
      for (Index panel = 0; panel < queries.num_panels(); ++panel) {
        if (!queries.sees(panel, key, key + keys)) continue;
        meet(queries, panel, key, keys, is_first[panel]);
        is_first[panel] = false;
      }
    }
    write(a, head, queries);
  }

  void write(const AttentionArgs& a, Index head, const Queries& queries) {
    const Index ld = a.heads * A;
    for (Index panel = 0; panel < queries.num_panels(); ++panel) {
      const Index begin = queries.panel_begin(panel), count = queries.panel_end(panel) - begin;
      F factor[kTileVectors];
      for (int j = 0; j < kTileVectors; ++j) factor[j] = 1.0F / load(total + panel * kTileCols + j * kLanes, All{});
      write_transposed(o + panel * kTileCols * A, A, factor, count, static_cast<T*>(a.out) + (queries.batch * a.queries + begin) * ld + head * A, ld);
      for (Index i = 0; i < count; ++i)
        a.lse[(queries.batch * a.heads + head) * a.queries + begin + i] = top[panel * kTileCols + i] + __builtin_logf(total[panel * kTileCols + i]);
    }
  }
};

template <class T> void forward(const AttentionArgs& a, Index batch, Index head, Index begin, Index end, void* scratch) {
  Forward<T> work(a.head_size);
  work.carve(scratch);
  work.run(a, head, {a, batch, begin, end});
}

Index scratch_bytes(Index, Index head_size) { return Forward<float>(head_size).carve(nullptr); }

}  // namespace

const AttentionForwardTable kAttentionForwardTable = {{forward<float>, forward<Bf16>}, scratch_bytes, kQueryBlock};

}  // namespace optimus::cpu::OPTIMUS_ISA
