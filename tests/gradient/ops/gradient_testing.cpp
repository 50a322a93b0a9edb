#include "tests/gradient/ops/gradient_testing.hpp"

#include "optimus/backend/ref/ref_backend.hpp"

namespace optimus::test {

Backend& ref() {
  static const std::unique_ptr<Backend> backend = make_ref_backend();
  return *backend;
}

Tensor random_f64(std::string_view name, Shape shape, double scale) { return {DType::kF64, shape, normal(name, shape.count(), scale)}; }

Tensor zeros_f64(Shape shape) { return {DType::kF64, shape, constant(0, shape.count())}; }

Tensor indices(DType dtype, const std::vector<double>& values) { return {dtype, {static_cast<Index>(values.size())}, values}; }

double dot(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values(), y = b.values();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

void expect_gradient(std::string_view what, const Tensor& x, const Tensor& dx, const std::function<double()>& loss, double bound) {
  constexpr double kStep = 1e-4;
  const std::vector<double> start = x.values();
  std::vector<double> slopes;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto element = static_cast<Index>(i);
    x.set(element, start[i] + kStep);
    const double above = loss();
    x.set(element, start[i] - kStep);
    const double below = loss();
    x.set(element, start[i]);
    slopes.push_back((above - below) / (2 * kStep));
  }
  expect_close(what, dx.values(), slopes, bound);
}

}  // namespace optimus::test
