#pragma once
// Memory laid out before the first step: one block, handed out front to back, given back in the opposite order.

#include <cstddef>
#include <string_view>

#include "optimus/tensor/view.hpp"

namespace optimus {

/// Owned memory, aligned to a cache line (64 bytes; to 2 MiB for huge pages when large). Not initialised.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index bytes);  ///< Errors: Error naming the size, if the system has no such memory
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Index bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  Index bytes_ = 0;
};

/// A stack of tensors in one buffer.
///
/// A *measuring* arena has no memory: it hands out views with addresses that must not be touched, and records how much would have
/// been needed. Running the same code once over a measuring arena (and the `dry` backend) is how memory is planned.
class Arena {
 public:
  [[nodiscard]] static Arena measuring();
  explicit Arena(Index capacity_bytes);

  /// Uninitialised; 64-byte aligned.  Errors: InternalError if the plan was too small (names the wanted and the left bytes).
  [[nodiscard]] View alloc(DType dtype, Shape shape);
  [[nodiscard]] View like(ConstView other) { return alloc(other.dtype(), other.shape()); }

  [[nodiscard]] Index used() const { return used_; }
  [[nodiscard]] Index peak() const { return peak_; }  ///< largest used() so far
  [[nodiscard]] Index capacity() const { return buffer_.bytes(); }
  [[nodiscard]] bool is_measuring() const { return is_measuring_; }
  /// Gives back everything handed out since used() was `mark`.
  void release_to(Index mark);

 private:
  Arena() = default;
  Buffer buffer_;
  Index used_ = 0, peak_ = 0;
  bool is_measuring_ = false;
};

/// Temporaries of one function: handed out by the arena, given back at the end of the scope.
class Scratch {
 public:
  explicit Scratch(Arena& arena) : arena_(arena), mark_(arena.used()) {}
  ~Scratch() { arena_.release_to(mark_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] View alloc(DType dtype, Shape shape) { return arena_.alloc(dtype, shape); }
  [[nodiscard]] View like(ConstView other) { return arena_.like(other); }

 private:
  Arena& arena_;
  Index mark_;
};

}  // namespace optimus
