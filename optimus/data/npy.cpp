#include "optimus/data/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "optimus/base/error.hpp"

namespace optimus {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what) { throw DataError(fmt::format("[npy] {}: {}", path.string(), what)); }

/// What follows `'key':` in the header's dictionary.
std::string_view value_of(std::string_view dictionary, std::string_view key, const std::filesystem::path& path) {
  const std::size_t at = dictionary.find(fmt::format("'{}'", key));
  const std::size_t colon = at == std::string_view::npos ? at : dictionary.find(':', at);
  if (colon == std::string_view::npos) fail(path, fmt::format("its header has no '{}'", key));
  const std::size_t begin = dictionary.find_first_not_of(' ', colon + 1);
  return begin == std::string_view::npos ? std::string_view() : dictionary.substr(begin);
}

std::vector<Index> parse_shape(std::string_view text, const std::filesystem::path& path) {
  const std::size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) fail(path, "its header has a damaged shape");
  std::vector<Index> shape;
  for (std::size_t at = 1; at < end;) {
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    Index size = 0;
    const auto [next, error] = std::from_chars(text.data() + at, text.data() + end, size);
    if (error != std::errc() || size < 0) fail(path, "its header has a damaged shape");
    shape.push_back(size);
    at = static_cast<std::size_t>(next - text.data());
  }
  return shape;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 12) fail(path, "is not a .npy file");
  const auto byte_at = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t version = byte_at(6);
  if (version < 1 || version > 3) fail(path, fmt::format("has .npy version {}; 1 to 3 are read", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte_at(8 + i) << (8 * i);
  const std::size_t begin = 8 + length_bytes;
  if (length > text.size() - begin) fail(path, "ends inside its header");
  const std::string_view dictionary = text.substr(begin, length);

  NpyHeader header;
  const std::string_view descr = value_of(dictionary, "descr", path);
  const std::size_t quote = descr.empty() ? std::string_view::npos : descr.find('\'', 1);
  if (descr.empty() || descr[0] != '\'' || quote == std::string_view::npos) fail(path, "has a structured element type");
  header.dtype = descr.substr(1, quote - 1);
  header.is_fortran = value_of(dictionary, "fortran_order", path).starts_with("True");
  header.shape = parse_shape(value_of(dictionary, "shape", path), path);
  header.data_offset = static_cast<Index>(begin + length);
  return header;
}

std::string make_npy_header(const std::string& dtype, const std::vector<Index>& shape) {
  const std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", dtype, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  const std::size_t total = (kPrefix + dictionary.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t length = total - kPrefix;
  std::string header(kMagic);
  header += {1, 0, static_cast<char>(length & 0xFFU), static_cast<char>(length >> 8)};
  header += dictionary;
  header.append(total - header.size() - 1, ' ');
  return header += '\n';
}

}  // namespace optimus
