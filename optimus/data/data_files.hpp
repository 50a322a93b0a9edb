#pragma once
// Reading what the user gave as data. A file that cannot be read is then a fault of the data, with their exit code, not of the machine.

#include <filesystem>
#include <string>

#include "optimus/base/file.hpp"

namespace optimus {

/// The whole file.  Errors: DataError.
[[nodiscard]] std::string read_data_file(const std::filesystem::path& path);
/// The file, mapped.  Errors: DataError.
[[nodiscard]] MappedFile map_data_file(const std::filesystem::path& path);

}  // namespace optimus
