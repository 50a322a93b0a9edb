#include <cstring>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {

void RefBackend::embedding_forward(ConstView w_VD, ConstView ids_T, Index vocab_begin, View x_TD) {
  for (Index t = 0; t < x_TD.size(0); ++t) {
    const Index row = ids_T.as<std::int32_t>()[t] - vocab_begin;
    if (row >= 0 && row < w_VD.size(0)) copy(w_VD[row], x_TD[t]);
    else fill_zero(x_TD[t]);
  }
}

void RefBackend::embedding_backward(ConstView dx_TD, ConstView ids_T, Index vocab_begin, View dw_VD) {
  const Matrix dx(dx_TD);
  const auto* ids = ids_T.as<std::int32_t>();
  Matrix dw(dw_VD.size(0), dw_VD.size(1));
  for (Index t = 0; t < dx_TD.size(0); ++t) {
    const Index row = ids[t] - vocab_begin;
    if (row < 0 || row >= dw_VD.size(0)) continue;
    for (Index d = 0; d < dw.width; ++d) dw(row, d) += dx(t, d);
  }
  store(dw_VD, dw.values, Write::kAccumulate);
}

void RefBackend::add(ConstView a, ConstView b, View out) {
  std::vector<double> sum = load(a);
  const std::vector<double> other = load(b);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  store(out, sum);
}

void RefBackend::convert(ConstView in, View out) { store(out, load(in)); }

void RefBackend::fill_zero(View out) {
  if (out.bytes() > 0) std::memset(out.data(), 0, static_cast<std::size_t>(out.bytes()));
}

void RefBackend::copy(ConstView in, View out) {
  if (out.bytes() > 0) std::memmove(out.data(), in.data(), static_cast<std::size_t>(out.bytes()));
}

}  // namespace optimus::ref
