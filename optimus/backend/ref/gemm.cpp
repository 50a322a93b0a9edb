#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {
namespace {

/// Calls fn(expert, rows begin, rows end) for every expert, with or without rows.
template <class Fn>
void for_each_segment(ConstView segments_e, Fn fn) {
  const auto segments = segments_e.span<std::int64_t>();
  for (std::size_t j = 0; j + 1 < segments.size(); ++j) fn(static_cast<Index>(j), segments[j], segments[j + 1]);
}

}  // namespace

void RefBackend::linear_forward(ConstView x_TI, ConstView w_OI, View y_TO) {
  const Matrix x(x_TI), w(w_OI);
  const Index T = x_TI.size(0), I = x_TI.size(1), O = w_OI.size(0);
  Matrix y(T, O);
  for (Index t = 0; t < T; ++t) {
    for (Index o = 0; o < O; ++o) {
      double sum = 0;
      for (Index i = 0; i < I; ++i) sum += x(t, i) * w(o, i);
      y(t, o) = sum;
    }
  }
  store(y_TO, y.values);
}

void RefBackend::linear_backward_input(ConstView dy_TO, ConstView w_OI, View dx_TI, Write write) {
  const Matrix dy(dy_TO), w(w_OI);
  const Index T = dy_TO.size(0), O = dy_TO.size(1), I = w_OI.size(1);
  Matrix dx(T, I);
  for (Index t = 0; t < T; ++t) {
    for (Index o = 0; o < O; ++o) {
      for (Index i = 0; i < I; ++i) dx(t, i) += dy(t, o) * w(o, i);
    }
  }
  store(dx_TI, dx.values, write);
}

void RefBackend::linear_backward_weight(ConstView dy_TO, ConstView x_TI, View dw_OI) {
  const Matrix dy(dy_TO), x(x_TI);
  const Index T = dy_TO.size(0), O = dy_TO.size(1), I = x_TI.size(1);
  Matrix dw(O, I);
  for (Index t = 0; t < T; ++t) {
    for (Index o = 0; o < O; ++o) {
      for (Index i = 0; i < I; ++i) dw(o, i) += dy(t, o) * x(t, i);
    }
  }
  store(dw_OI, dw.values, Write::kAccumulate);
}

void RefBackend::grouped_linear_forward(ConstView x_RI, ConstView w_eOI, ConstView segments_e, View y_RO) {
  for_each_segment(segments_e, [&](Index expert, Index begin, Index end) { linear_forward(x_RI.rows(begin, end), w_eOI[expert], y_RO.rows(begin, end)); });
}

void RefBackend::grouped_linear_backward_input(ConstView dy_RO, ConstView w_eOI, ConstView segments_e, View dx_RI, Write write) {
  for_each_segment(segments_e,
                   [&](Index expert, Index begin, Index end) { linear_backward_input(dy_RO.rows(begin, end), w_eOI[expert], dx_RI.rows(begin, end), write); });
}

void RefBackend::grouped_linear_backward_weight(ConstView dy_RO, ConstView x_RI, ConstView segments_e, View dw_eOI) {
  for_each_segment(segments_e,
                   [&](Index expert, Index begin, Index end) { linear_backward_weight(dy_RO.rows(begin, end), x_RI.rows(begin, end), dw_eOI[expert]); });
}

}  // namespace optimus::ref
