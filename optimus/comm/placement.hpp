#pragma once
// Which part of a parameter a rank holds, and which ranks hold the same part: both follow from its ParamSpec and the mesh, never from its name.

#include "optimus/comm/mesh.hpp"
#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// The part of `spec` on `rank`: its tp_dim split over TP, the experts of a stacked parameter split over EP.
/// Errors: ConfigError naming parameter, dimension and degree if they do not divide.
[[nodiscard]] Box local_box(const ParamSpec& spec, const Mesh& mesh, Index rank);

/// The axis along which the ranks hold copies of the same part: DP for experts, DP x EP for everything else.
[[nodiscard]] Axis replica_axis(const ParamSpec& spec);

}  // namespace optimus
