#include "optimus/model/rotary.hpp"

#include <cmath>

namespace optimus {
namespace {

void put(const View& view, Index place, double value) {
  if (view.dtype() == DType::kF64) view.as<double>()[place] = value;
  else view.as<float>()[place] = static_cast<float>(value);
}

}  // namespace

void fill_rotary_tables(double theta, View cos_PA, View sin_PA) {
  const Index positions = cos_PA.size(0), pairs = cos_PA.size(1);
  for (Index a = 0; a < pairs; ++a) {
    const float exponent = static_cast<float>(2 * a) / static_cast<float>(2 * pairs);
    const float frequency = 1.0F / std::pow(static_cast<float>(theta), exponent);
    for (Index p = 0; p < positions; ++p) {
      const float angle = static_cast<float>(p) * frequency;
      put(cos_PA, p * pairs + a, std::cos(static_cast<double>(angle)));
      put(sin_PA, p * pairs + a, std::sin(static_cast<double>(angle)));
    }
  }
}

void fill_positions(Index sequence_length, Index first, View positions_T) {
  std::int32_t* positions = positions_T.as<std::int32_t>();
  for (Index t = 0; t < positions_T.count(); ++t) positions[t] = narrow<std::int32_t>(first + t % sequence_length);
}

}  // namespace optimus
