#include "optimus/data/token_array.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/data/npy.hpp"

namespace optimus {
namespace {

/// Calls f with a value of the stored type.
template <class F>
decltype(auto) with_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::kU8: return f(std::uint8_t{});
    case TokenType::kU16: return f(std::uint16_t{});
    case TokenType::kU32: return f(std::uint32_t{});
    case TokenType::kI8: return f(std::int8_t{});
    case TokenType::kI16: return f(std::int16_t{});
    case TokenType::kI32: return f(std::int32_t{});
    case TokenType::kU64: return f(std::uint64_t{});
    case TokenType::kI64: break;
  }
  return f(std::int64_t{});
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) { throw DataError(fmt::format("[data] {}: {}", path.string(), what)); }

TokenType type_of(const std::string& dtype, const std::filesystem::path& path) {
  static constexpr std::pair<std::string_view, TokenType> kTypes[] = {{"|u1", TokenType::kU8},  {"<u2", TokenType::kU16}, {"<u4", TokenType::kU32},
                                                                      {"<u8", TokenType::kU64}, {"|i1", TokenType::kI8},  {"<i2", TokenType::kI16},
                                                                      {"<i4", TokenType::kI32}, {"<i8", TokenType::kI64}};
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) return type;
  }
  fail(path, fmt::format("its elements are {}; token ids are little-endian integers", dtype));
}

MappedFile map_input(const std::filesystem::path& path) {
  try {
    return MappedFile(path);
  } catch (const FileError& error) {
    fail(path, error.what());
  }
}

}  // namespace

Index token_type_bytes(TokenType type) {
  return with_type(type, [](auto zero) { return static_cast<Index>(sizeof(zero)); });
}

TokenType token_type_for(Index vocab_size) { return vocab_size <= Index{1} << 16 ? TokenType::kU16 : TokenType::kU32; }

const char* token_type_name(TokenType type) {
  switch (type) {
    case TokenType::kU8: return "uint8";
    case TokenType::kU16: return "uint16";
    case TokenType::kU32: return "uint32";
    case TokenType::kU64: return "uint64";
    case TokenType::kI8: return "int8";
    case TokenType::kI16: return "int16";
    case TokenType::kI32: return "int32";
    case TokenType::kI64: break;
  }
  return "int64";
}

TokenArray TokenArray::open_npy(const std::filesystem::path& path) {
  MappedFile file = map_input(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path);
  if (header.shape.size() != 1) fail(path, fmt::format("has {} dimensions; an array of token ids has one", header.shape.size()));
  const TokenType type = type_of(header.dtype, path);
  const Index size = header.shape[0], held = static_cast<Index>(file.bytes().size()) - header.data_offset;
  if (size > held / token_type_bytes(type) || size * token_type_bytes(type) != held) {
    fail(path, fmt::format("its header says {} of {} bytes, but {} bytes follow it", counted(size, "element"), token_type_bytes(type), held));
  }
  return {std::move(file), header.data_offset, size, type};
}

TokenArray TokenArray::open_raw(const std::filesystem::path& path, TokenType type) {
  MappedFile file = map_input(path);
  const auto bytes = static_cast<Index>(file.bytes().size());
  if (bytes % token_type_bytes(type) != 0) fail(path, fmt::format("a size of {} is no whole number of {} ids", counted(bytes, "byte"), token_type_name(type)));
  return {std::move(file), 0, bytes / token_type_bytes(type), type};
}

void TokenArray::read(Index begin, std::span<std::int32_t> ids) const {
  with_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const std::byte* from = file_.bytes().data() + offset_ + begin * static_cast<Index>(sizeof(T));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof(T));
      ids[i] = std::in_range<std::int32_t>(value) && value >= 0 ? static_cast<std::int32_t>(value) : -1;
    }
  });
}

std::int64_t TokenArray::value(Index index) const {
  return with_type(type_, [&](auto zero) {
    using T = decltype(zero);
    std::memcpy(&zero, file_.bytes().data() + offset_ + index * static_cast<Index>(sizeof(T)), sizeof(T));
    return static_cast<std::int64_t>(zero);
  });
}

}  // namespace optimus
