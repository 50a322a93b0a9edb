#include "optimus/checkpoint/hugging_face_names.hpp"

namespace optimus {

Index num_entries(const ParamSpec& spec) { return spec.is_stacked() ? spec.shape[0] : 1; }

Shape entry_shape(const ParamSpec& spec) {
  Shape shape;
  for (int d = spec.is_stacked() ? 1 : 0; d < spec.shape.ndim(); ++d) shape.push_back(spec.shape[d]);
  return shape;
}

Box entry_box(const ParamSpec& spec, Index index) {
  Box box = Box::whole(spec.shape);
  if (!spec.is_stacked()) return box;
  box.begin.set(0, index);
  box.shape.set(0, 1);
  return box;
}

}  // namespace optimus
