#include <cmath>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {

void RefBackend::rms_norm_forward(ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T) {
  const Matrix x(x_TD);
  const std::vector<double> gain = load(gain_D);
  const Index T = x_TD.size(0), D = x_TD.size(1);
  Matrix y(T, D), rstd(T, 1);
  for (Index t = 0; t < T; ++t) {
    double sum = 0;
    for (Index d = 0; d < D; ++d) sum += x(t, d) * x(t, d);
    rstd(t, 0) = 1 / std::sqrt(sum / static_cast<double>(D) + eps);
    for (Index d = 0; d < D; ++d) y(t, d) = x(t, d) * rstd(t, 0) * gain[static_cast<std::size_t>(d)];
  }
  store(y_TD, y.values);
  store(rstd_T, rstd.values);
}

void RefBackend::rms_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D) {
  const Matrix dy(dy_TD), x(x_TD);
  const std::vector<double> gain = load(gain_D), rstd_of = load(rstd_T);
  const Index T = x_TD.size(0), D = x_TD.size(1);
  Matrix dx(T, D), dgain(1, D);
  for (Index t = 0; t < T; ++t) {
    const double rstd = rstd_of[static_cast<std::size_t>(t)];
    double mean = 0;
    for (Index d = 0; d < D; ++d) mean += dy(t, d) * gain[static_cast<std::size_t>(d)] * x(t, d) * rstd / static_cast<double>(D);
    for (Index d = 0; d < D; ++d) {
      const double n = x(t, d) * rstd;
      dgain(0, d) += dy(t, d) * n;
      dx(t, d) = rstd * (dy(t, d) * gain[static_cast<std::size_t>(d)] - n * mean);
    }
  }
  store(dx_TD, dx.values, write);
  store(dgain_D, dgain.values, Write::kAccumulate);
}

void RefBackend::row_sum_squares(ConstView x_TD, View sums_T) {
  const Matrix x(x_TD);
  Matrix sums(x_TD.size(0), 1);
  for (Index t = 0; t < x_TD.size(0); ++t) {
    for (Index d = 0; d < x.width; ++d) sums(t, 0) += x(t, d) * x(t, d);
  }
  store(sums_T, sums.values);
}

void RefBackend::rms_norm_rstd(ConstView sums_T, Index width, double eps, View rstd_T) {
  std::vector<double> values = load(sums_T);
  for (double& value : values) value = 1 / std::sqrt(value / static_cast<double>(width) + eps);
  store(rstd_T, values);
}

void RefBackend::rms_norm_apply(ConstView x_TD, ConstView gain_D, ConstView rstd_T, View y_TD) {
  const Matrix x(x_TD), gain(gain_D);
  const std::vector<double> rstd = load(rstd_T);
  Matrix y(x_TD.size(0), x.width);
  for (Index t = 0; t < x_TD.size(0); ++t) {
    for (Index d = 0; d < x.width; ++d) y(t, d) = x(t, d) * rstd[static_cast<std::size_t>(t)] * gain(0, d);
  }
  store(y_TD, y.values);
}

void RefBackend::rms_norm_dots(const RmsNormPart& part, View dots_T) {
  const Matrix dy(part.dy_TD), x(part.x_TD), gain(part.gain_D);
  const std::vector<double> rstd = load(part.rstd_T);
  Matrix dots(part.x_TD.size(0), 1);
  for (Index t = 0; t < part.x_TD.size(0); ++t) {
    for (Index d = 0; d < x.width; ++d) dots(t, 0) += dy(t, d) * gain(0, d) * x(t, d) * rstd[static_cast<std::size_t>(t)];
  }
  store(dots_T, dots.values);
}

void RefBackend::rms_norm_backward_apply(const RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D) {
  const Matrix dy(part.dy_TD), x(part.x_TD), gain(part.gain_D);
  const std::vector<double> rstd_of = load(part.rstd_T), dots = load(dots_T);
  const Index T = part.x_TD.size(0), D = x.width;
  Matrix dx(T, D), dgain(1, D);
  for (Index t = 0; t < T; ++t) {
    const double rstd = rstd_of[static_cast<std::size_t>(t)], mean = dots[static_cast<std::size_t>(t)] / static_cast<double>(part.width);
    for (Index d = 0; d < D; ++d) {
      const double n = x(t, d) * rstd;
      dgain(0, d) += dy(t, d) * n;
      dx(t, d) = rstd * (dy(t, d) * gain(0, d) - n * mean);
    }
  }
  store(dx_TD, dx.values, write);
  store(dgain_D, dgain.values, Write::kAccumulate);
}

void RefBackend::layer_norm_forward(ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T) {
  const Matrix x(x_TD);
  const Index T = x_TD.size(0), D = x_TD.size(1);
  Matrix y(T, D), mean(T, 1), rstd(T, 1);
  for (Index t = 0; t < T; ++t) {
    double sum = 0, sum_squares = 0;
    for (Index d = 0; d < D; ++d) sum += x(t, d);
    mean(t, 0) = sum / static_cast<double>(D);
    for (Index d = 0; d < D; ++d) sum_squares += (x(t, d) - mean(t, 0)) * (x(t, d) - mean(t, 0));
    rstd(t, 0) = 1 / std::sqrt(sum_squares / static_cast<double>(D) + eps);
    for (Index d = 0; d < D; ++d) y(t, d) = (x(t, d) - mean(t, 0)) * rstd(t, 0);
  }
  store(y_TD, y.values);
  store(mean_T, mean.values);
  store(rstd_T, rstd.values);
}

void RefBackend::layer_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write) {
  const Matrix dy(dy_TD), x(x_TD);
  const std::vector<double> mean_of = load(mean_T), rstd_of = load(rstd_T);
  const Index T = x_TD.size(0), D = x_TD.size(1);
  Matrix dx(T, D);
  for (Index t = 0; t < T; ++t) {
    const double mean = mean_of[static_cast<std::size_t>(t)], rstd = rstd_of[static_cast<std::size_t>(t)];
    double mean_dy = 0, mean_dy_y = 0;
    for (Index d = 0; d < D; ++d) {
      mean_dy += dy(t, d) / static_cast<double>(D);
      mean_dy_y += dy(t, d) * (x(t, d) - mean) * rstd / static_cast<double>(D);
    }
    for (Index d = 0; d < D; ++d) dx(t, d) = rstd * (dy(t, d) - mean_dy - (x(t, d) - mean) * rstd * mean_dy_y);
  }
  store(dx_TD, dx.values, write);
}

}  // namespace optimus::ref
