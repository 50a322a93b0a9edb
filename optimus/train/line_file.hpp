#pragma once
// A file of JSON lines that grows by whole lines and survives being cut off anywhere.

#include <filesystem>
#include <string>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// Appends lines, each in one write, so that a reader meets whole ones. What a full disk does not take is written before the next line.
class LineFile {
 public:
  /// Opens for appending; makes the file if there is none.  Errors: FileError.
  explicit LineFile(std::filesystem::path path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  /// `line` without its end.  Errors: FileError, for example on a full disk; what was there before stays, the line waits.
  void append(std::string_view line);
  /// Writes what waits.  Errors: FileError.
  void flush();
  [[nodiscard]] std::size_t waiting_bytes() const { return waiting_.size(); }

 private:
  void open_again_if_removed();

  std::filesystem::path path_;
  int fd_ = -1;
  std::string waiting_;
};

/// Cuts a metrics file back to its steps up to `step`: what a run resumed from there continues. A torn last line goes too, and so do lines in between that
/// cannot be read; the good ones behind those stay.
///
/// Returns the last step that is left, 0 if none. A file that does not exist is one without steps.
/// Errors: FileError.
Index keep_steps(const std::filesystem::path& path, Index step);

/// Moves all of a file's lines to the end of the file `aside`. Returns how many there were.
/// Errors: FileError.
Index set_lines_aside(const std::filesystem::path& path, const std::filesystem::path& aside);

}  // namespace optimus
