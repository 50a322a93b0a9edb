#include "optimus/comm/placement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/counted.hpp"

namespace optimus {
namespace {

void cut(Box& box, int dim, const IndexRange& range) {
  box.shape.set(dim, range.count);
  box.begin.set(dim, range.begin);
}

IndexRange even_part(const ParamSpec& spec, int dim, Index parts, Index part) {
  const Index size = spec.shape[dim];
  if (size % parts != 0) throw ConfigError(fmt::format("[mesh] {}: dimension {} of {} cannot be divided over {} ranks", spec.name, dim, size, parts));
  return {.begin = part * (size / parts), .count = size / parts};
}

IndexRange part_of_heads(const ParamSpec& spec, int dim, Index tp, Index tp_rank) {
  const Index heads = spec.tp_heads, head_size = spec.shape[dim] / heads;
  if (heads % tp != 0 && tp % heads != 0)
    throw ConfigError(fmt::format("[mesh] {}: {} cannot be divided over {}", spec.name, counted(heads, "head"), counted(tp, "rank")));
  const Index count = std::max<Index>(1, heads / tp);
  return {.begin = (heads >= tp ? tp_rank * count : tp_rank / (tp / heads)) * head_size, .count = count * head_size};
}

IndexRange tp_part(const ParamSpec& spec, int dim, const ModelSplit& split) {
  if (spec.tp_heads > 0) return part_of_heads(spec, dim, split.tp, split.tp_rank);
  if (!spec.is_tp_uneven) return even_part(spec, dim, split.tp, split.tp_rank);
  if (spec.shape[dim] < split.tp)
    throw ConfigError(fmt::format("[mesh] {}: dimension {} of {} has nothing for some of {} ranks", spec.name, dim, spec.shape[dim], split.tp));
  return uneven_part(spec.shape[dim], split.tp, split.tp_rank);
}

}  // namespace

ModelSplit model_split(const Mesh& mesh, Index rank) {
  const Coordinates at = mesh.coordinates(rank);
  return {.tp = mesh.tp(), .tp_rank = at.tp, .ep = mesh.ep(), .ep_rank = at.ep};
}

IndexRange uneven_part(Index size, Index parts, Index part) {
  const Index least = size / parts, longer = size % parts;
  return {.begin = part * least + std::min(part, longer), .count = least + (part < longer ? 1 : 0)};
}

Box local_box(const ParamSpec& spec, const ModelSplit& split) {
  Box box = Box::whole(spec.shape);
  if (spec.is_expert) cut(box, 0, even_part(spec, 0, split.ep, split.ep_rank));
  if (spec.tp_dim) cut(box, *spec.tp_dim, tp_part(spec, *spec.tp_dim, split));
  return box;
}

Box local_box(const ParamSpec& spec, const Mesh& mesh, Index rank) { return local_box(spec, model_split(mesh, rank)); }

Axis replica_axis(const ParamSpec& spec) {
  if (spec.is_expert) return Axis::kDp;
  return spec.tp_dim ? Axis::kDpEp : Axis::kDpEpTp;
}

Index tp_copies(const ParamSpec& spec, Index tp) { return spec.tp_dim && spec.tp_heads > 0 ? std::max<Index>(1, tp / spec.tp_heads) : 1; }

}  // namespace optimus
