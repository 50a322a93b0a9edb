// Embedding, sums, conversions.

#include <cstring>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kElementGrain = 16384, kByteGrain = 65536;

}  // namespace

void CpuBackend::embedding_forward(ConstView w_VD, ConstView ids_T, Index vocab_begin, View x_TD) {
  const auto row_bytes = static_cast<std::size_t>(w_VD.size(1) * dtype_bytes(w_VD.dtype()));
  const auto* ids = ids_T.as<std::int32_t>();
  parallel_ranges(threads_, ids_T.count(), 16, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      const Index row = ids[t] - vocab_begin;
      std::byte* x = x_TD.data() + static_cast<std::size_t>(t) * row_bytes;
      if (row >= 0 && row < w_VD.size(0)) std::memcpy(x, w_VD.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes);
      else std::memset(x, 0, row_bytes);
    }
  });
}

void CpuBackend::embedding_backward(ConstView dx_TD, ConstView ids_T, Index vocab_begin, View dw_VD) {
  // Threads share out the columns: every element is added to in row order by one thread.
  const Index D = dw_VD.size(1), dx_bytes = dtype_bytes(dx_TD.dtype()), dw_bytes = dtype_bytes(dw_VD.dtype());
  const auto* ids = ids_T.as<std::int32_t>();
  parallel_ranges(threads_, D, 32, [&](Index begin, Index end) {
    for (Index t = 0; t < ids_T.count(); ++t) {
      const Index row = ids[t] - vocab_begin;
      if (row < 0 || row >= dw_VD.size(0)) continue;
      kernels_.misc.add_into[element(dx_TD)][element(dw_VD)](dx_TD.data() + (t * D + begin) * dx_bytes, dw_VD.data() + (row * D + begin) * dw_bytes,
                                                             end - begin);
    }
  });
}

void CpuBackend::add(ConstView a, ConstView b, View out) {
  parallel_ranges(threads_, out.count(), kElementGrain,
                  [&](Index begin, Index end) { kernels_.misc.add[element(out)](a.data(), b.data(), out.data(), begin, end); });
}

void CpuBackend::convert(ConstView in, View out) {
  if (element(in) == element(out)) return copy(in, out);
  parallel_ranges(threads_, out.count(), kElementGrain, [&](Index begin, Index end) {
    if (out.dtype() == DType::kBF16) kernels_.misc.to_bf16(in.as<float>(), out.data(), begin, end);
    else kernels_.misc.to_f32(in.data(), out.as<float>(), begin, end);
  });
}

void CpuBackend::fill_zero(View out) {
  parallel_ranges(threads_, out.bytes(), kByteGrain,
                  [&](Index begin, Index end) { std::memset(out.data() + begin, 0, static_cast<std::size_t>(end - begin)); });
}

void CpuBackend::copy(ConstView in, View out) {
  parallel_ranges(threads_, out.bytes(), kByteGrain,
                  [&](Index begin, Index end) { std::memcpy(out.data() + begin, in.data() + begin, static_cast<std::size_t>(end - begin)); });
}

}  // namespace optimus::cpu
