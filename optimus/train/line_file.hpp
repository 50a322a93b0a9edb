#pragma once
// A file of JSON lines that grows by whole lines and survives being cut off anywhere.

#include <filesystem>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// Appends lines, each in one write, so that a reader meets whole ones.
class LineFile {
 public:
  /// Opens for appending; makes the file if there is none.  Errors: FileError.
  explicit LineFile(std::filesystem::path path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  /// `line` without its end.  Errors: FileError, for example on a full disk; what was there before stays.
  void append(std::string_view line);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Cuts a metrics file back to its steps up to `step`: what a run resumed from there continues. A torn last line goes too.
///
/// Returns the last step that is left, 0 if none. A file that does not exist is one without steps.
/// Errors: FileError.
Index keep_steps(const std::filesystem::path& path, Index step);

}  // namespace optimus
