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

  explicit Forward(Index head_size) : unit(), A(head_size), q_units_deep(units_of(unit, head_size)), scale(1.0F / __builtin_sqrtf(static_cast<float>(head_size))) {}
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
  void softmax(Index panel, int j, Index key_begin, Index keys, const Mask& mask) {
    float* column = scores + j * kLanes;
    F largest = splat(-kInfinity);
    for (Index i = 0; i < keys; ++i) {
      F s = load(column + i * kTileCols, All{}) * scale;
      if (mask.is_needed) s = mask.apply(s, key_begin + i, j, -kInfinity);
      store(column + i * kTileCols, s, All{});
      largest = max(s, largest);
    }
    float *top_j = top + panel * kTileCols + j * kLanes, *total_j = total + panel * kTileCols + j * kLanes;
    const F old_top = load(top_j, All{}), new_top = max(largest, old_top);
    const F base = new_top == -kInfinity ? F{} : new_top;  // nothing seen yet: all are e^-infinity
    const F factor = exp(old_top - base);
    F sum_j = load(total_j, All{}) * factor;
    for (Index i = 0; i < keys; i += 2) {
      const F first = exp(load(column + i * kTileCols, All{}) - base);
      const F second = i + 1 < keys ? exp(load(column + (i + 1) * kTileCols, All{}) - base) : F{};
      sum_j += first + second;
      put_units(unit, p_units + i / Unit::k_per_unit * kTileCols + j * kLanes, first, second);
    }
    store(top_j, new_top, All{});
    store(total_j, sum_j, All{});
    rescale(o + panel * kTileCols * A, factor, j);
  }

  void run(const AttentionArgs& a, Index head, const Queries& queries) {
    const Index q_ld = a.heads * A, kv_ld = a.kv_heads * A, kv_head = head / (a.heads / a.kv_heads);
    const T* q = static_cast<const T*>(a.q) + (queries.batch * a.queries + queries.begin) * q_ld + head * A;
    const T *k = static_cast<const T*>(a.k) + queries.batch * a.keys * kv_ld + kv_head * A, *v = static_cast<const T*>(a.v) + queries.batch * a.keys * kv_ld + kv_head * A;
    pack_cols(unit, q, q_ld, queries.end - queries.begin, A, q_units);
    for (Index i = 0; i < kQueryBlock * A; i += kLanes) store(o + i, F{}, All{});
    for (Index i = 0; i < kQueryBlock; i += kLanes) store(top + i, splat(-kInfinity), All{}), store(total + i, F{}, All{});
    const Index last_key = queries.position(queries.end - 1) + 1;
    for (Index key = queries.lowest_key(queries.begin, queries.end) / kKeyBlock * kKeyBlock; key < last_key; key += kKeyBlock) {
      const Index keys = last_key - key < kKeyBlock ? last_key - key : kKeyBlock;
      pack_rows(unit, k + key * kv_ld, kv_ld, keys, A, k_units);
      pack_rows_strided(unit, v + key * kv_ld, kv_ld, A, keys, v_units);
      for (Index panel = 0; panel < queries.num_panels(); ++panel) {
        if (!queries.sees(panel, key, key + keys)) continue;
        multiply<Unit>(k_units, q_units_deep, keys, q_units + panel * kTileCols * q_units_deep, q_units_deep, scores, kTileCols, kTileCols, false);
        const Mask mask(queries, panel, key, key + keys);
        for (int j = 0; j < kTileVectors; ++j) softmax(panel, j, key, keys, mask);
        multiply<Unit>(v_units, units_of(unit, keys), A, p_units, units_of(unit, keys), o + panel * kTileCols * A, kTileCols, kTileCols, true);
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
