#pragma once
// Checksums (xxHash). Not cryptographic: they find damage, not malice.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace optimus {

/// xxh64 with seed 0: the checksum of files, chunks and id lists.
[[nodiscard]] std::uint64_t xxh64(std::span<const std::byte> bytes);
[[nodiscard]] std::uint64_t xxh64(std::string_view text);

/// xxh64 of bytes that come in pieces.
class Xxh64 {
 public:
  Xxh64();
  ~Xxh64();
  Xxh64(Xxh64&&) noexcept;
  Xxh64& operator=(Xxh64&&) noexcept;
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 16 lower-case hexadecimal digits.
[[nodiscard]] std::string hex64(std::uint64_t value);

}  // namespace optimus
