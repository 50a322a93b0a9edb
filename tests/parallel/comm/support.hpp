#pragma once
// One suite for every transport: each test gets a group by name and fills tensors with values that tell sender and place.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optimus/comm/mpi/environment.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {

inline constexpr DType kAllTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32, DType::kU32, DType::kU16, DType::kU8};
inline constexpr DType kSummedTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32};
/// Empty, one, primes, around a cache line, and several pieces of the smallest staging memory (1024 bytes).
inline constexpr Index kCounts[] = {0, 1, 7, 64, 127, 1031, 4099};

/// A tensor that owns its memory.
class Tensor {
 public:
  Tensor(DType dtype, Index count) : bytes_(static_cast<std::size_t>(count * dtype_bytes(dtype)), std::byte{0x5a}), dtype_(dtype), count_(count) {}
  [[nodiscard]] View view() { return {bytes_.data(), dtype_, {count_}}; }
  [[nodiscard]] View part(Index begin, Index end) { return view().rows(begin, end); }
  [[nodiscard]] bool operator==(const Tensor& other) const { return bytes_ == other.bytes_; }
  [[nodiscard]] Index count() const { return count_; }
  /// Bytes that differ with `seed` and place; any bit pattern is a value here.
  void fill_bytes(Index seed) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>((static_cast<std::size_t>(seed) * 131 + i * 7 + (i >> 8) * 13) & 0xff);
  }
  /// Finite numbers of very different size, so that the order of a sum shows in its last bits.
  void fill_numbers(Index seed) {
    for (Index i = 0; i < count_; ++i) set(i, number(seed, i));
  }
  [[nodiscard]] static double number(Index seed, Index i) {
    const auto mixed = static_cast<std::uint64_t>(seed * 7919 + i + 1) * 0x9e3779b97f4a7c15ULL;
    const double fraction = static_cast<double>(mixed >> 11) * 0x1p-53 - 0.5;
    return fraction * static_cast<double>(Index{1} << ((mixed >> 3) % 24));
  }
  void set(Index i, double value) {
    switch (dtype_) {
      case DType::kF64: view().as<double>()[i] = value; break;
      case DType::kF32: view().as<float>()[i] = static_cast<float>(value); break;
      case DType::kBF16: view().as<BFloat16>()[i] = BFloat16(static_cast<float>(value)); break;
      case DType::kI64: view().as<std::int64_t>()[i] = static_cast<std::int64_t>(value * 1000); break;
      default: view().as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
    }
  }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_;
  Index count_;
};

/// The wanted result of a reduction of one element, added in member order as the header promises, by other code than the library's.
template <class T, class A>
void expect_reduced(std::vector<Tensor>& inputs, Index begin, Index count, Reduce reduce, Tensor& wanted) {
  for (Index i = 0; i < count; ++i) {
    A sum = static_cast<A>(inputs[0].view().as<T>()[begin + i]);
    for (std::size_t m = 1; m < inputs.size(); ++m) {
      const A next = static_cast<A>(inputs[m].view().as<T>()[begin + i]);
      sum = reduce == Reduce::kSum ? static_cast<A>(sum + next) : reduce == Reduce::kMax ? std::max(sum, next) : std::min(sum, next);
    }
    wanted.view().as<T>()[i] = static_cast<T>(sum);
  }
}

inline Tensor reduced(std::vector<Tensor>& inputs, DType dtype, Index begin, Index count, Reduce reduce) {
  Tensor wanted(dtype, count);
  switch (dtype) {
    case DType::kF64: expect_reduced<double, double>(inputs, begin, count, reduce, wanted); break;
    case DType::kF32: expect_reduced<float, float>(inputs, begin, count, reduce, wanted); break;
    case DType::kBF16: expect_reduced<BFloat16, float>(inputs, begin, count, reduce, wanted); break;
    case DType::kI64: expect_reduced<std::int64_t, std::int64_t>(inputs, begin, count, reduce, wanted); break;
    default: expect_reduced<std::int32_t, std::int32_t>(inputs, begin, count, reduce, wanted);
  }
  return wanted;
}

/// A transport with a way of carrying out its collectives.
struct Transport {
  std::string name;
  std::function<std::unique_ptr<Communicator>()> make;
  MpiTuning tuning;
};

class Transports : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    mpi().set_tuning(GetParam().tuning);
    comm_ = GetParam().make();
  }
  void TearDown() override {
    comm_.reset();
    mpi().set_tuning({});
  }
  [[nodiscard]] Communicator& comm() { return *comm_; }
  [[nodiscard]] Index rank() const { return comm_->rank(); }
  [[nodiscard]] Index size() const { return comm_->size(); }
  /// What every member would put in.
  [[nodiscard]] std::vector<Tensor> inputs_of_all(DType dtype, Index count) const {
    std::vector<Tensor> inputs;
    for (Index m = 0; m < size(); ++m) inputs.emplace_back(dtype, count).fill_numbers(m);
    return inputs;
  }

 private:
  std::unique_ptr<Communicator> comm_;
};

}  // namespace optimus::test
