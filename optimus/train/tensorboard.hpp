#pragma once
// TensorBoard event files: scalars in the protobuf records that its reader expects, written by hand because three kinds of message are all we need.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optimus/train/line_file.hpp"

namespace optimus {

/// CRC-32C (Castagnoli) and the rotated form of it that the record format stores.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// One record: length, its checksum, the bytes, their checksum.
[[nodiscard]] std::string event_record(std::string_view event);
/// Serialised tensorflow.Event messages.
[[nodiscard]] std::string version_event(double wall_time);
[[nodiscard]] std::string session_start_event(double wall_time, Index step);
using Scalar = std::pair<std::string, double>;
[[nodiscard]] std::string scalars_event(double wall_time, Index step, std::span<const Scalar> scalars);

/// A new event file in a run folder.
class EventFile {
 public:
  /// `first_step`: readers forget what older files of the folder say about this step and later ones.  Errors: FileError.
  EventFile(const std::filesystem::path& run_dir, Index first_step);
  void add(Index step, std::span<const Scalar> scalars);

 private:
  void append(std::string_view event);
  std::filesystem::path path_;
};

}  // namespace optimus
