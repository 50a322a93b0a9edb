#include "optimus/ops/misc.hpp"

#include "optimus/ops/arguments.hpp"

namespace optimus::ops {

void embedding_forward(Backend& backend, ConstView w_VD, ConstView ids_T, View x_TD, Index vocab_begin) {
  const Arguments arguments(backend, "embedding_forward");
  arguments.expect_ndim("w_VD", w_VD, 2);
  arguments.expect_ndim("ids_T", ids_T, 1);
  arguments.expect_shape("x_TD", x_TD, {ids_T.size(0), w_VD.size(1)});
  arguments.expect_compute("w_VD", w_VD);
  arguments.expect_dtype("ids_T", ids_T, DType::kI32);
  arguments.expect_same("x_TD", x_TD, w_VD);
  backend.embedding_forward(w_VD, ids_T, vocab_begin, x_TD);
}

void embedding_backward(Backend& backend, ConstView dx_TD, ConstView ids_T, View dw_VD, Index vocab_begin) {
  const Arguments arguments(backend, "embedding_backward");
  arguments.expect_ndim("dw_VD", dw_VD, 2);
  arguments.expect_ndim("ids_T", ids_T, 1);
  arguments.expect_shape("dx_TD", dx_TD, {ids_T.size(0), dw_VD.size(1)});
  arguments.expect_compute("dx_TD", dx_TD);
  arguments.expect_dtype("ids_T", ids_T, DType::kI32);
  arguments.expect_same_or_f32("dw_VD", dw_VD, dx_TD);
  backend.embedding_backward(dx_TD, ids_T, vocab_begin, dw_VD);
}

void add(Backend& backend, ConstView a, ConstView b, View out) {
  const Arguments arguments(backend, "add");
  arguments.expect_count("a", a, a.count());
  arguments.expect_count("b", b, a.count());
  arguments.expect_count("out", out, a.count());
  arguments.expect_compute("a", a);
  arguments.expect_same("b", b, a);
  arguments.expect_same("out", out, a);
  backend.add(a, b, out);
}

void convert(Backend& backend, ConstView in, View out) {
  const Arguments arguments(backend, "convert");
  arguments.expect_count("in", in, in.count());
  arguments.expect_count("out", out, in.count());
  arguments.expect_compute("in", in);
  arguments.expect_compute("out", out);
  backend.convert(in, out);
}

void fill_zero(Backend& backend, View out) {
  const Arguments arguments(backend, "fill_zero");
  arguments.expect_count("out", out, out.count());
  backend.fill_zero(out);
}

void copy(Backend& backend, ConstView in, View out) {
  const Arguments arguments(backend, "copy");
  arguments.expect_count("in", in, in.count());
  arguments.expect_count("out", out, in.count());
  arguments.expect_same("out", out, in);
  backend.copy(in, out);
}

}  // namespace optimus::ops
