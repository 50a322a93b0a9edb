#pragma once
// The bytes of a file from front to back, decompressed on the way.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "optimus/base/index.hpp"

namespace optimus {

enum class Compression { kNone, kGzip, kZstd };

/// A file being read once, front to back.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills `out` as far as there are bytes; fewer than asked for only at the end of the file.
  /// Errors: DataError naming the file if it cannot be read, or the compressed data are damaged, cut off or something else.
  [[nodiscard]] virtual std::size_t read(std::span<char> out) = 0;
  /// Bytes of the file itself consumed so far, for progress.
  [[nodiscard]] virtual Index position() const = 0;
};

/// Errors: DataError if there is no such file or it may not be read.
[[nodiscard]] std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path, Compression compression);

/// Calls `line(std::string)` for each line of what is left of `stream`, without its line break; as soon as it is there, if the stream is a pipe.
void for_each_line(ByteStream& stream, const std::function<void(const std::string&)>& line);

}  // namespace optimus
