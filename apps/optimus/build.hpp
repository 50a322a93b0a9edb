#pragma once
// Which build of this program is running.

#include <string>

namespace optimus {

/// A line each: version, compiler, build type, and a hash of the program file, which any two builds differ in.
[[nodiscard]] std::string build_text();

}  // namespace optimus
