#pragma once
// The layouts that must all give one result. A new one is a line here.

#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::test {

struct Layout {
  Index dp = 1, tp = 1, ep = 1, pp = 1;
  Index micro_batch = 1;
  std::vector<std::string> settings;  ///< as for --set
  [[nodiscard]] Index ranks() const { return dp * tp * ep * pp; }
  [[nodiscard]] std::string str() const;
};

/// A small model.
struct ModelCase {
  std::string name, text;
  Index layers = 1;
  bool is_moe = true;
  double sgd_bound = 1e-5;  ///< of weights after five steps of learning rate 1, as a part of a tensor's largest element
};
[[nodiscard]] std::vector<ModelCase> model_cases();

/// For every run of the tests: of the meshes of powers of two on up to `most_ranks` ranks every third, beginning with `first`, each with every choice of each
/// option in turn. The models together have all meshes.
[[nodiscard]] std::vector<Layout> covering_layouts(const ModelCase& model, Index most_ranks, std::size_t first);
/// Every combination of mesh and options.
[[nodiscard]] std::vector<Layout> all_layouts(const ModelCase& model, Index most_ranks);

}  // namespace optimus::test
