#pragma once
// Which part of a parameter a rank holds, and which ranks hold the same part: both follow from its ParamSpec and the mesh, never from its name.

#include "optimus/comm/mesh.hpp"
#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// Where a rank stands in the two axes that cut parameters.
struct ModelSplit {
  Index tp = 1, tp_rank = 0;
  Index ep = 1, ep_rank = 0;
};
[[nodiscard]] ModelSplit model_split(const Mesh& mesh, Index rank);

/// Indices [begin, begin + count) of a dimension.
struct IndexRange {
  Index begin = 0, count = 0;
};
/// Part `part` of `size` indices in `parts` that differ by at most one, the longer ones first.
[[nodiscard]] IndexRange uneven_part(Index size, Index parts, Index part);

/// The part of `spec` on a rank: its tp_dim split over TP, the experts of a stacked parameter split over EP.
/// Errors: ConfigError naming parameter, dimension and degree if they do not divide; of an uneven dimension, if a rank would get nothing.
[[nodiscard]] Box local_box(const ParamSpec& spec, const ModelSplit& split);
[[nodiscard]] Box local_box(const ParamSpec& spec, const Mesh& mesh, Index rank);

/// The axis along which a parameter's gradient is summed: DP for experts; DP x EP for what TP cuts; DP x EP x TP for what every TP rank has whole, because
/// each of them computes the gradient of its own rows only.
[[nodiscard]] Axis replica_axis(const ParamSpec& spec);

/// How many TP ranks hold the same part with the same gradient: more than one where there are fewer heads than TP ranks. They are not summed over replica_axis.
[[nodiscard]] Index tp_copies(const ParamSpec& spec, Index tp);

}  // namespace optimus
