#pragma once
// Invariants. Always on: a wrong result costs more than the test.

#include <source_location>
#include <string_view>

namespace optimus {

/// Throws InternalError with the condition's text and place.
[[noreturn]] void fail_check(std::string_view condition, std::string_view message, std::source_location where = std::source_location::current());

}  // namespace optimus

/// Ends with InternalError unless `condition` holds. For what cannot happen unless the program is wrong; what a user can cause throws its own error.
#define OPTIMUS_CHECK(condition, message)         \
  do {                                            \
    if (!(condition)) [[unlikely]]                \
      ::optimus::fail_check(#condition, message); \
  } while (false)
