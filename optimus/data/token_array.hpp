#pragma once
// A file of token ids, mapped: .npy, or raw little-endian integers.

#include <cstdint>
#include <filesystem>
#include <span>

#include "optimus/base/file.hpp"
#include "optimus/base/index.hpp"

namespace optimus {

/// How an id is stored, little-endian.
enum class TokenType { kU8, kU16, kU32, kI8, kI16, kI32, kI64, kU64 };
[[nodiscard]] Index token_type_bytes(TokenType type);
/// The narrowest of uint16 and uint32 that holds ids below `vocab_size`.
[[nodiscard]] TokenType token_type_for(Index vocab_size);
/// "uint16", …: as dataset.json and the command line spell it.
[[nodiscard]] const char* token_type_name(TokenType type);

/// A mapped one-dimensional array of ids. Pages are read when touched.
class TokenArray {
 public:
  /// Errors: DataError naming the file: no .npy, not one-dimensional, not integers, big-endian, longer or shorter than its header says.
  [[nodiscard]] static TokenArray open_npy(const std::filesystem::path& path);
  /// Errors: DataError if the size is no multiple of the type's.
  [[nodiscard]] static TokenArray open_raw(const std::filesystem::path& path, TokenType type);

  [[nodiscard]] Index size() const { return size_; }
  /// ids[i] = element begin + i. Values that are no int32 (negative, too large) come out as -1: no vocabulary has them.
  void read(Index begin, std::span<std::int32_t> ids) const;
  /// Element `index` as it stands in the file, for messages.
  [[nodiscard]] std::int64_t value(Index index) const;

 private:
  TokenArray(MappedFile file, Index offset, Index size, TokenType type) : file_(std::move(file)), offset_(offset), size_(size), type_(type) {}
  MappedFile file_;
  Index offset_ = 0, size_ = 0;
  TokenType type_ = TokenType::kU16;
};

}  // namespace optimus
