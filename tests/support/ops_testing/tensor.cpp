#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "optimus/base/random.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus::test {
namespace {

constexpr std::size_t kGuard = 64;
constexpr int kGuardByte = 0xC5;

double get(ConstView view, Index i) {
  switch (view.dtype()) {
    case DType::kF64: return view.as<double>()[i];
    case DType::kF32: return static_cast<double>(view.as<float>()[i]);
    case DType::kBF16: return static_cast<double>(static_cast<float>(view.as<BFloat16>()[i]));
    case DType::kI32: return static_cast<double>(view.as<std::int32_t>()[i]);
    case DType::kI64: return static_cast<double>(view.as<std::int64_t>()[i]);
    default: throw InternalError("[test] element type");
  }
}

void put(View view, Index i, double value) {
  switch (view.dtype()) {
    case DType::kF64: view.as<double>()[i] = value; return;
    case DType::kF32: view.as<float>()[i] = static_cast<float>(value); return;
    case DType::kBF16: view.as<BFloat16>()[i] = BFloat16(static_cast<float>(value)); return;
    case DType::kI32: view.as<std::int32_t>()[i] = static_cast<std::int32_t>(value); return;
    case DType::kI64: view.as<std::int64_t>()[i] = static_cast<std::int64_t>(value); return;
    default: throw InternalError("[test] element type");
  }
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(shape) {
  const auto bytes = static_cast<std::size_t>(shape.count() * dtype_bytes(dtype));
  memory_ = std::make_unique<std::byte[]>(bytes + 2 * kGuard);
  std::memset(memory_.get(), kGuardByte, bytes + 2 * kGuard);
  std::memset(memory_.get() + kGuard, 0xFF, bytes);
}

Tensor::Tensor(DType dtype, Shape shape, const std::vector<double>& values) : Tensor(dtype, shape) {
  if (static_cast<Index>(values.size()) != shape.count()) throw InternalError(fmt::format("[test] {} values for {}", values.size(), shape.str()));
  for (Index i = 0; i < shape.count(); ++i) set(i, values[static_cast<std::size_t>(i)]);
}

View Tensor::view() const { return {memory_.get() + kGuard, dtype_, shape_}; }

void Tensor::set(Index i, double value) const { put(view(), i, value); }

std::vector<double> Tensor::values() const {
  std::vector<double> values(static_cast<std::size_t>(shape_.count()));
  for (Index i = 0; i < shape_.count(); ++i) values[static_cast<std::size_t>(i)] = get(view(), i);
  return values;
}

bool Tensor::has_intact_guards() const {
  const std::byte* end = memory_.get() + kGuard + shape_.count() * dtype_bytes(dtype_);
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (memory_[i] != std::byte{kGuardByte} || end[i] != std::byte{kGuardByte}) return false;
  }
  return true;
}

std::vector<double> normal(std::string_view name, Index count, double scale) {
  std::vector<float> values(static_cast<std::size_t>(count));
  RandomStream(1, "test", name).fill_normal(0, values);
  std::vector<double> scaled;
  for (const float value : values) scaled.push_back(static_cast<double>(value) * scale);
  return scaled;
}

std::vector<double> below(std::string_view name, Index count, std::uint64_t n) {
  const RandomStream stream(1, "test", name);
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(static_cast<double>(stream.below(i, n)));
  return values;
}

std::vector<double> constant(double value, Index count) { return std::vector<double>(static_cast<std::size_t>(count), value); }

void expect_close(std::string_view what, const std::vector<double>& got, const std::vector<double>& want, double bound, double scale) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = scale, worst = 0;
  std::size_t worst_index = 0;
  for (const double value : want) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool are_equal = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    const double difference = are_equal ? 0 : std::abs(got[i] - want[i]);
    const double error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    if (error > worst) {
      worst = error;
      worst_index = i;
    }
  }
  if (worst <= bound * largest) return;
  ADD_FAILURE() << fmt::format("{}: element {} of {} is {:.9g}, wanted {:.9g}: off by {:.3g}, allowed {:.3g} ({:.3g} of the largest, {:.6g})", what,
                               worst_index, got.size(), got[worst_index], want[worst_index], worst, bound * largest, bound, largest);
}

}  // namespace optimus::test
