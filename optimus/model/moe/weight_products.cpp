#include "optimus/model/moe/weight_products.hpp"

#include "optimus/ops/linear.hpp"

namespace optimus {

void make_weight_gradient(Backend& backend, const WeightProduct& product) {
  if (product.segments_e.exists()) ops::grouped_linear_backward_weight(backend, product.dy, product.x, product.segments_e, product.dw);
  else ops::linear_backward_weight(backend, product.dy, product.x, product.dw);
}

}  // namespace optimus
