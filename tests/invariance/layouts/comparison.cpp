#include "tests/invariance/layouts/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "optimus/comm/self/self.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {
std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

namespace {

/// The largest |a - e|, as a part of the largest |e|.
double difference(const std::vector<float>& a, const std::vector<float>& e) {
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(e[i])));
    scale = std::max(scale, std::abs(static_cast<double>(e[i])));
  }
  return worst == 0 ? 0 : worst / scale;
}

}  // namespace

void expect_tensors(const char* what, const Tensors& a, const Tensors& e, double bound) {
  ASSERT_EQ(a.size(), e.size());
  for (const auto& [name, expected] : e) {
    ASSERT_TRUE(a.contains(name)) << name;
    ASSERT_EQ(a.at(name).size(), expected.size()) << name;
    const double worst = difference(a.at(name), expected);
    EXPECT_TRUE(worst <= bound) << what << " of " << name << ": " << worst << " of the largest element";
  }
}

void expect_numbers(const char* what, const std::vector<double>& a, const std::vector<double>& e, double bound) {
  ASSERT_EQ(a.size(), e.size());
  for (std::size_t i = 0; i < e.size(); ++i) EXPECT_NEAR(a[i], e[i], bound * std::max(1.0, std::abs(e[i]))) << what << ", step " << i + 1;
}

void expect_equal(const Outcome& a, const Outcome& e, double weight_bound) {
  expect_numbers("lm_loss", a.lm_loss, e.lm_loss, 1e-5);
  expect_numbers("aux_loss", a.aux_loss, e.aux_loss, 1e-5);
  expect_numbers("z_loss", a.z_loss, e.z_loss, 1e-5);
  expect_numbers("grad_norm", a.grad_norm, e.grad_norm, 1e-5);
  expect_tensors("initial weights", a.initial, e.initial, 0);
  expect_tensors("gradients", a.gradients, e.gradients, 1e-5);
  expect_tensors("weights", a.weights, e.weights, weight_bound);
}

Outcome train_in(const Layout& layout, const std::string& text, const std::vector<std::string>& settings, Index steps, Ids ids) {
  if (world().rank() >= layout.ranks()) return {};
  std::vector<Index> members;
  for (Index rank = 0; rank < layout.ranks(); ++rank) members.push_back(rank);
  const auto group = world().subgroup(members, "layout");
  const std::vector<std::string> mesh = {"parallel.tp=" + std::to_string(layout.tp), "parallel.ep=" + std::to_string(layout.ep),
                                         "parallel.pp=" + std::to_string(layout.pp), "batch.micro_batch=" + std::to_string(layout.micro_batch)};
  return train(*group, text, joined({settings, mesh, layout.settings}), steps, ids);
}

Outcome train_alone(const std::string& text, const std::vector<std::string>& settings, Index steps, Ids ids) {
  const auto self = make_self_communicator();
  return train(*self, text, settings, steps, ids);
}

}  // namespace optimus::test
