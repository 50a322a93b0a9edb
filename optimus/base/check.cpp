#include "optimus/base/check.hpp"

#include <fmt/format.h>

#include "optimus/base/error.hpp"

namespace optimus {

void fail_check(std::string_view condition, std::string_view message, std::source_location where) {
  throw InternalError(fmt::format("[internal] {} (broken: {}, {}:{})", message, condition, where.file_name(), where.line()));
}

}  // namespace optimus
