#pragma once
// Comparing outcomes, and running them on the first ranks of the world.

#include <map>
#include <string>
#include <vector>

#include "tests/invariance/layouts/layouts.hpp"
#include "tests/invariance/layouts/training.hpp"

namespace optimus::test {

using Tensors = std::map<std::string, std::vector<float>>;

[[nodiscard]] std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists);

/// The largest |a - e| of each tensor is at most `bound` of its largest |e|.
void expect_tensors(const char* what, const Tensors& a, const Tensors& e, double bound);
void expect_numbers(const char* what, const std::vector<double>& a, const std::vector<double>& e, double bound);
/// Everything; `weight_bound`: of the weights at the end.
void expect_equal(const Outcome& a, const Outcome& e, double weight_bound);

/// train() on the first ranks, as many as the layout wants; the outcome is on rank 0. Other ranks do nothing.
[[nodiscard]] Outcome train_in(const Layout& layout, const std::string& text, const std::vector<std::string>& settings, Index steps, Ids ids = Ids::kRandom);
/// train() on this rank alone.
[[nodiscard]] Outcome train_alone(const std::string& text, const std::vector<std::string>& settings, Index steps, Ids ids = Ids::kRandom);

}  // namespace optimus::test
