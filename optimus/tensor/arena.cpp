#include "optimus/tensor/arena.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace optimus {
namespace {
constexpr Index kAlignment = 64;
constexpr Index kHugePage = Index{2} << 20;
// No address of a process on x86-64 or arm64: touching it faults at once.
constexpr std::uintptr_t kMeasuringBase = std::uintptr_t{1} << 62;
}  // namespace

Buffer::Buffer(Index bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const Index alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(round_up(bytes, alignment))));
  if (data_ == nullptr) throw Error(fmt::format("[tensor] no memory for {} bytes ({:.1f} GiB)", bytes, static_cast<double>(bytes) / 0x1p30));
  // Fewer address translations. Where the system has no huge pages it refuses, and nothing else changes.
  if (alignment == kHugePage) ::madvise(data_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Arena Arena::measuring() {
  Arena arena;
  arena.is_measuring_ = true;
  return arena;
}

Arena::Arena(Index capacity_bytes) : buffer_(capacity_bytes) {}

View Arena::alloc(DType dtype, Shape shape) {
  const Index bytes = round_up(checked_mul(shape.count(), dtype_bytes(dtype)), kAlignment);
  if (!is_measuring_ && used_ + bytes > buffer_.bytes()) {
    throw InternalError(fmt::format("[tensor] the memory plan is too small: {} {} needs {} bytes, {} of {} are left", dtype_name(dtype), shape.str(), bytes,
                                    buffer_.bytes() - used_, buffer_.bytes()));
  }
  std::byte* base = is_measuring_ ? reinterpret_cast<std::byte*>(kMeasuringBase) : buffer_.data();  // NOLINT(performance-no-int-to-ptr)
  View view(base + used_, dtype, shape);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return view;
}

void Arena::release_to(Index mark) { used_ = mark; }

}  // namespace optimus
