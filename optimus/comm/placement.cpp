#include "optimus/comm/placement.hpp"

#include <fmt/format.h>

namespace optimus {
namespace {

void split(Box& box, const ParamSpec& spec, int dim, Index parts, Index part) {
  const Index size = box.shape[dim];
  if (size % parts != 0) throw ConfigError(fmt::format("[mesh] {}: dimension {} of {} cannot be divided over {} ranks", spec.name, dim, size, parts));
  box.shape.set(dim, size / parts);
  box.begin.set(dim, part * (size / parts));
}

}  // namespace

Box local_box(const ParamSpec& spec, const Mesh& mesh, Index rank) {
  Box box = Box::whole(spec.shape);
  const Coordinates at = mesh.coordinates(rank);
  if (spec.is_expert) split(box, spec, 0, mesh.ep(), at.ep);
  if (spec.tp_dim) split(box, spec, *spec.tp_dim, mesh.tp(), at.tp);
  return box;
}

Axis replica_axis(const ParamSpec& spec) { return spec.is_expert ? Axis::kDp : Axis::kDpEp; }

}  // namespace optimus
