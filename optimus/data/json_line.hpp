#pragma once
// One line of a .jsonl file with its fields by name.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// A JSON object. Errors: DataError that says what the line or the field must be; the caller adds file and line.
class JsonLine {
 public:
  explicit JsonLine(std::string_view line);
  [[nodiscard]] JsonLine object(std::string_view key) const;
  [[nodiscard]] std::string_view text(std::string_view key) const;  ///< valid as long as this line
  [[nodiscard]] Index whole_number(std::string_view key) const;
  /// Token ids below `vocab_size`.
  [[nodiscard]] std::vector<std::int32_t> ids(std::string_view key, Index vocab_size) const;

 private:
  struct Impl;
  explicit JsonLine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace optimus
