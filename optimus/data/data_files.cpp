#include "optimus/data/data_files.hpp"

#include "optimus/base/error.hpp"

namespace optimus {

std::string read_data_file(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const FileError& error) {
    throw DataError(error.what());
  }
}

MappedFile map_data_file(const std::filesystem::path& path) {
  try {
    return MappedFile(path);
  } catch (const FileError& error) {
    throw DataError(error.what());
  }
}

}  // namespace optimus
