#include "apps/optimus/build.hpp"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <span>

#include "optimus/base/error.hpp"
#include "optimus/base/hash.hpp"

namespace optimus {
namespace {

/// Hash of this program's file; a few milliseconds, from the memory it was loaded into.
std::string program_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Xxh64 hash;
  std::array<char, std::size_t{1} << 16> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0)
    hash.update(std::as_bytes(std::span(block.data(), static_cast<std::size_t>(file.gcount()))));
  if (!file.eof()) throw FileError("[build] /proc/self/exe cannot be read; all ranks have to run the same program, which is checked with it");
  return hex64(hash.digest());
}

}  // namespace

std::string build_text() {
  return fmt::format("version {}\ncompiler {}\nbuild type {}\nprogram {}\n", OPTIMUS_VERSION, OPTIMUS_COMPILER, OPTIMUS_BUILD_TYPE, program_hash());
}

}  // namespace optimus
