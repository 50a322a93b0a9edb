#include "optimus/ops/loss.hpp"

#include "optimus/ops/arguments.hpp"

namespace optimus::ops {
namespace {

void expect_labels(const Arguments& arguments, ConstView labels_T, Index num_rows) {
  arguments.expect_shape("labels_T", labels_T, {num_rows});
  arguments.expect_dtype("labels_T", labels_T, DType::kI32);
}

}  // namespace

void cross_entropy_statistics(Backend& backend, ConstView logits_TV, ConstView labels_T, Index vocab_begin, const LossKernels::SoftmaxStatistics& out) {
  const Arguments arguments(backend, "cross_entropy_statistics");
  arguments.expect_ndim("logits_TV", logits_TV, 2);
  const Index num_rows = logits_TV.size(0);
  arguments.expect(num_rows == 0 || logits_TV.size(1) > 0, "at least one column", "logits_TV", logits_TV);
  expect_labels(arguments, labels_T, num_rows);
  arguments.expect_shape("max_T", out.max_T, {num_rows});
  arguments.expect_shape("sum_T", out.sum_T, {num_rows});
  arguments.expect_shape("target_T", out.target_T, {num_rows});
  arguments.expect_compute("logits_TV", logits_TV);
  arguments.expect_wide("max_T", out.max_T, logits_TV);
  arguments.expect_wide("sum_T", out.sum_T, logits_TV);
  arguments.expect_wide("target_T", out.target_T, logits_TV);
  backend.cross_entropy_statistics(logits_TV, labels_T, vocab_begin, out);
}

void combine_softmax_statistics(Backend& backend, ConstView parts_M3T, const LossKernels::SoftmaxStatistics& out) {
  const Arguments arguments(backend, "combine_softmax_statistics");
  arguments.expect_ndim("parts_M3T", parts_M3T, 3);
  arguments.expect(parts_M3T.size(0) > 0 && parts_M3T.size(1) == 3, "[M, 3, T] with M > 0", "parts_M3T", parts_M3T);
  arguments.expect_compute("parts_M3T", parts_M3T);
  arguments.expect_wide("parts_M3T", parts_M3T, parts_M3T);
  const auto expect_column = [&](std::string_view name, ConstView view) {
    arguments.expect_shape(name, view, {parts_M3T.size(2)});
    arguments.expect_same(name, view, parts_M3T);
  };
  expect_column("max_T", out.max_T);
  expect_column("sum_T", out.sum_T);
  expect_column("target_T", out.target_T);
  backend.combine_softmax_statistics(parts_M3T, out);
}

void cross_entropy_loss(Backend& backend, const LossKernels::SoftmaxStatistics& statistics, ConstView labels_T, View loss_T, View lse_T) {
  const Arguments arguments(backend, "cross_entropy_loss");
  arguments.expect_ndim("max_T", statistics.max_T, 1);
  const Index num_rows = statistics.max_T.size(0);
  arguments.expect_shape("sum_T", statistics.sum_T, {num_rows});
  arguments.expect_shape("target_T", statistics.target_T, {num_rows});
  expect_labels(arguments, labels_T, num_rows);
  arguments.expect_shape("loss_T", loss_T, {num_rows});
  arguments.expect_shape("lse_T", lse_T, {num_rows});
  arguments.expect_wide("max_T", statistics.max_T, statistics.max_T);
  arguments.expect_same("sum_T", statistics.sum_T, statistics.max_T);
  arguments.expect_same("target_T", statistics.target_T, statistics.max_T);
  arguments.expect_same("loss_T", loss_T, statistics.max_T);
  arguments.expect_same("lse_T", lse_T, statistics.max_T);
  backend.cross_entropy_loss(statistics, labels_T, loss_T, lse_T);
}

void cross_entropy_gradient(Backend& backend, ConstView logits_TV, ConstView labels_T, Index vocab_begin, ConstView lse_T, double scale, View dlogits_TV) {
  const Arguments arguments(backend, "cross_entropy_gradient");
  arguments.expect_ndim("logits_TV", logits_TV, 2);
  expect_labels(arguments, labels_T, logits_TV.size(0));
  arguments.expect_shape("lse_T", lse_T, {logits_TV.size(0)});
  arguments.expect_shape("dlogits_TV", dlogits_TV, logits_TV.shape());
  arguments.expect_compute("logits_TV", logits_TV);
  arguments.expect_wide("lse_T", lse_T, logits_TV);
  arguments.expect_compute("dlogits_TV", dlogits_TV);
  backend.cross_entropy_gradient(logits_TV, labels_T, vocab_begin, lse_T, scale, dlogits_TV);
}

void argmax(Backend& backend, ConstView logits_TV, View index_T) {
  const Arguments arguments(backend, "argmax");
  arguments.expect_ndim("logits_TV", logits_TV, 2);
  arguments.expect(logits_TV.size(0) == 0 || logits_TV.size(1) > 0, "at least one column", "logits_TV", logits_TV);
  arguments.expect_shape("index_T", index_T, {logits_TV.size(0)});
  arguments.expect_compute("logits_TV", logits_TV);
  arguments.expect_dtype("index_T", index_T, DType::kI32);
  backend.argmax(logits_TV, index_T);
}

}  // namespace optimus::ops
