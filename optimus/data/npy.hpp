#pragma once
// NumPy's array file: the header, both ways. Format 1.0 is written; 1.0 to 3.0 are read.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

struct NpyHeader {
  std::string dtype;  ///< as the file spells it: "<u2", "<i8", …
  std::vector<Index> shape;
  bool is_fortran = false;  ///< column-major
  Index data_offset = 0;    ///< bytes before the first element
};

/// Errors: DataError naming `path` if `bytes` do not begin with a header or end inside it.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::filesystem::path& path);
/// A header for a C-ordered array, a multiple of 64 bytes long.
[[nodiscard]] std::string make_npy_header(const std::string& dtype, const std::vector<Index>& shape);

}  // namespace optimus
