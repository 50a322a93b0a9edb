#pragma once
// Computes nothing and counts: with a measuring Arena the same model code becomes its own memory and arithmetic plan.

#include <memory>

#include "optimus/backend/backend.hpp"

namespace optimus {

/// What the kernels called so far would have done.
struct WorkCount { double gemm_flops = 0, attention_flops = 0, other_bytes = 0; };

/// A backend that touches no memory. Grouped products count R = capacity rows.
class DryBackend : public Backend {
 public:
  [[nodiscard]] virtual const WorkCount& work() const = 0;
};
[[nodiscard]] std::unique_ptr<DryBackend> make_dry_backend();

}  // namespace optimus
