#pragma once

#include <exception>
#include <string>

namespace optimus {

/// What to tell the user of any exception: the message of ours, and in the same form what the standard library and the system say.
[[nodiscard]] std::string user_message(const std::exception& error);

}  // namespace optimus
