#include "optimus/base/user_message.hpp"

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

namespace optimus {

std::string user_message(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "[memory] the system has no more memory for this process";
  if (dynamic_cast<const std::length_error*>(&error) != nullptr) return "[memory] a size is larger than any memory; make what was asked for smaller";
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return "[file] cannot use " + file->path1().string() + ": " + file->code().message();
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) return "[system] " + system->code().message();
  return error.what();
}

}  // namespace optimus
