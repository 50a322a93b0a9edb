#include "optimus/backend/ref/storage.hpp"

#include <bit>
#include <cmath>

#include "optimus/base/check.hpp"

namespace optimus::ref {
namespace {

/// Through float, rounded to odd on the way, so that the second rounding sees on which side of a tie the value was.
BFloat16 round_to_bf16(double value) {
  auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return BFloat16(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) nearest = std::nextafter(nearest, 0.0F);
  return BFloat16(std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) | 1U));
}

template <class T>
double widen(T value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T narrow_to(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return round_to_bf16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
void load_as(ConstView view, std::vector<double>& values) {
  const T* elements = view.as<T>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = widen(elements[i]);
}

template <class T>
void store_as(View view, std::span<const double> values) {
  T* elements = view.as<T>();
  for (std::size_t i = 0; i < values.size(); ++i) elements[i] = narrow_to<T>(values[i]);
}

}  // namespace

std::vector<double> load(ConstView view) {
  std::vector<double> values(static_cast<std::size_t>(view.count()));
  switch (view.dtype()) {
    case DType::kF64: load_as<double>(view, values); break;
    case DType::kF32: load_as<float>(view, values); break;
    case DType::kBF16: load_as<BFloat16>(view, values); break;
    default: throw InternalError("[ref] a tensor of " + std::string(dtype_name(view.dtype())) + " reached a kernel");
  }
  return values;
}

void store(View view, std::span<const double> values) {
  OPTIMUS_CHECK(static_cast<Index>(values.size()) == view.count(), "a result of another size than its tensor");
  switch (view.dtype()) {
    case DType::kF64: return store_as<double>(view, values);
    case DType::kF32: return store_as<float>(view, values);
    case DType::kBF16: return store_as<BFloat16>(view, values);
    default: throw InternalError("[ref] a tensor of " + std::string(dtype_name(view.dtype())) + " reached a kernel");
  }
}

void store(View view, std::span<const double> values, Write write) {
  if (write == Write::kOverwrite) return store(view, values);
  std::vector<double> sum = load(view);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  store(view, sum);
}

}  // namespace optimus::ref
