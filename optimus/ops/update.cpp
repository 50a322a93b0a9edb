#include "optimus/ops/update.hpp"

#include "optimus/ops/arguments.hpp"

namespace optimus::ops {
namespace {

void expect_update(const Arguments& arguments, ConstView gradient, ConstView master, ConstView weight) {
  arguments.expect_ndim("master", master, 1);
  arguments.expect_shape("gradient", gradient, master.shape());
  arguments.expect_shape("weight", weight, master.shape());
  arguments.expect_compute("gradient", gradient);
  arguments.expect_wide("master", master, master);
  arguments.expect_compute("weight", weight);
}

}  // namespace

void adamw_update(Backend& backend, const AdamWStep& step, ConstView gradient, View master, View exp_avg, View exp_avg_sq, View weight) {
  const Arguments arguments(backend, "adamw_update");
  expect_update(arguments, gradient, master, weight);
  arguments.expect_shape("exp_avg", exp_avg, master.shape());
  arguments.expect_shape("exp_avg_sq", exp_avg_sq, master.shape());
  arguments.expect_same("exp_avg", exp_avg, master);
  arguments.expect_same("exp_avg_sq", exp_avg_sq, master);
  backend.adamw_update(step, gradient, master, exp_avg, exp_avg_sq, weight);
}

void sgd_update(Backend& backend, double lr, double weight_decay, double gradient_scale, ConstView gradient, View master, View weight) {
  const Arguments arguments(backend, "sgd_update");
  expect_update(arguments, gradient, master, weight);
  backend.sgd_update(lr, weight_decay, gradient_scale, gradient, master, weight);
}

double sum_squares(Backend& backend, ConstView x) {
  const Arguments arguments(backend, "sum_squares");
  arguments.expect_count("x", x, x.count());
  arguments.expect_compute("x", x);
  return backend.sum_squares(x);
}

}  // namespace optimus::ops
