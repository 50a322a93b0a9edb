// A block of a matrix product by one thread: pack, then register tiles.

#include "optimus/backend/cpu/kernels/tables.hpp"
#include "optimus/backend/cpu/kernels/tile.hpp"

namespace optimus::cpu::OPTIMUS_ISA {
namespace {

// Sizes in units. A block of a (kBlockRows x kDepth) stays in L2 while panels of b (kTileCols x kDepth) pass over it.
constexpr Index kDepth = 1024, kBlockRows = 8 * kTileRows, kMaxCols = 256, kMaxRowsDeep = 512;
constexpr Index kPackA = kBlockRows * kDepth, kPackB = kMaxCols * kDepth;
static_assert(kMaxCols % kTileCols == 0);

struct Scratch {
  std::uint32_t *a, *b;
  float* c;
};

template <class T> const T* entry(const GemmSide& side, Index row, Index k) {
  return static_cast<const T*>(side.data) + (side.k_contiguous ? row * side.ld + k : k * side.ld + row);
}

/// Columns of b, rows [begin, end) of a and `depth` of k, into `out`; b is packed.
template <class Unit, class A> void multiply_rows(const GemmTask& task, Index begin, Index end, Index k, Index depth, const Scratch& scratch, TileOut out) {
  const Index units = units_of(Unit{}, depth), element_bytes = out.is_bf16 ? 2 : 4;
  const RowPanels panels(end - begin);
  if (task.a.k_contiguous) pack_rows(Unit{}, entry<A>(task.a, begin, k), task.a.ld, end - begin, depth, scratch.a);
  else pack_rows_strided(Unit{}, entry<A>(task.a, begin, k), task.a.ld, end - begin, depth, scratch.a);
  for (Index n = 0; n < task.n; n += kTileCols) {
    out.cols = static_cast<int>(task.n - n < kTileCols ? task.n - n : kTileCols);
    for (Index p = 0; p < panels.count; ++p) {
      TileOut tile_out = out;
      tile_out.c = static_cast<char*>(out.c) + ((begin + panels.begin(p)) * out.ld + n) * element_bytes;
      tile_of<Unit>(panels.height(p))(scratch.a + panels.begin(p) * units, scratch.b + n * units, units, tile_out);
    }
  }
}

/// Adds up in f32 scratch what is deeper than one pass and ends as bf16, so that it is rounded once.
void finish(const GemmTask& task, const float* sums) {
  for (Index m = 0; m < task.m; ++m) {
    Bf16* c = static_cast<Bf16*>(task.c) + m * task.ldc;
    for_vectors(task.n, [&](Index j, auto n) { put(c + j, load(sums + m * task.n + j, n), task.accumulate, n); });
  }
}

template <class Unit, class A, class B> void run(const GemmTask& task, void* memory) {
  auto* units_memory = static_cast<std::uint32_t*>(memory);
  const Scratch scratch{units_memory, units_memory + kPackA, reinterpret_cast<float*>(units_memory + kPackA + kPackB)};
  const Index max_depth = kDepth * Unit::k_per_unit;
  const bool uses_sums = task.is_c_bf16 && task.k > max_depth;
  TileOut out{task.c, task.ldc, 0, task.is_c_bf16, task.accumulate};
  if (uses_sums) out = {scratch.c, task.n, 0, false, false};
  for (Index k = 0; k < task.k || k == 0; k += max_depth) {
    const Index depth = task.k - k < max_depth ? task.k - k : max_depth;
    if (task.b.k_contiguous) pack_cols(Unit{}, entry<B>(task.b, 0, k), task.b.ld, task.n, depth, scratch.b);
    else pack_cols_strided(Unit{}, entry<B>(task.b, 0, k), task.b.ld, task.n, depth, scratch.b);
    for (Index m = 0; m < task.m; m += kBlockRows) multiply_rows<Unit, A>(task, m, task.m - m < kBlockRows ? task.m : m + kBlockRows, k, depth, scratch, out);
    out.accumulate = true;
  }
  if (uses_sums) finish(task, scratch.c);
}

#if defined(__AVX512BF16__)
using Bf16Unit = Pairs;
#else
using Bf16Unit = Floats;
#endif

}  // namespace

const GemmTable kGemmTable = {{run<Floats, float, float>, run<Bf16Unit, Bf16, Bf16>, run<Floats, float, Bf16>},
                              4 * (kPackA + kPackB + kMaxRowsDeep * kMaxCols),
                              kMaxCols,
                              kMaxRowsDeep,
                              {kDepth, kDepth* Bf16Unit::k_per_unit, kDepth}};

}  // namespace optimus::cpu::OPTIMUS_ISA
