#pragma once
// Analytic gradients against central differences, all in double on the reference backend.

#include <functional>

#include "tests/support/ops_testing.hpp"

namespace optimus::test {

/// The reference backend, shared by the tests of one program.
[[nodiscard]] Backend& ref();

/// An f64 tensor of standard normal numbers times `scale`, the same for the same name.
[[nodiscard]] Tensor random_f64(std::string_view name, Shape shape, double scale = 1);
/// An f64 tensor of zeros.
[[nodiscard]] Tensor zeros_f64(Shape shape);
[[nodiscard]] Tensor indices(DType dtype, const std::vector<double>& values);

/// sum_i a[i] * b[i]: with b the gradient that backward is given, this is the loss whose gradient it returns.
[[nodiscard]] double dot(const Tensor& a, const Tensor& b);

/// Fails unless dx[i] = d loss() / d x[i] for every element, where loss() runs the forward pass on x as it is. x is left as it was.
///
/// Numerics: central differences with step h = 1e-4 are wrong by h^2/6 of the third derivative, and by 2^-53 / h of the loss: 1e-7 of the
/// largest element covers both for losses of order 1 to 100 with derivatives to match.
void expect_gradient(std::string_view what, const Tensor& x, const Tensor& dx, const std::function<double()>& loss, double bound = 1e-7);

}  // namespace optimus::test
