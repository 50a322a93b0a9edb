#pragma once
// Which fields of a faulty configuration still say what was meant, so that checks between them find all the rest that is wrong.

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "optimus/config/source.hpp"

namespace optimus {

class SoundFields {
 public:
  /// Both outlive this.
  SoundFields(const ConfigSource& source, const Problems& problems) : source_(source), problems_(problems) {}

  /// Whether each of these fields could be read.
  [[nodiscard]] bool read(std::initializer_list<std::string_view> keys) const {
    return std::none_of(keys.begin(), keys.end(), [&](std::string_view key) { return source_.is_faulty(key); });
  }
  /// Whether nothing at all has been found wrong with any of these fields.
  [[nodiscard]] bool good(std::initializer_list<std::string_view> keys) const {
    return read(keys) && std::none_of(problems_.items().begin(), problems_.items().end(),
                                      [&](const Problems::Item& item) { return std::find(keys.begin(), keys.end(), item.key) != keys.end(); });
  }
  /// Whether the sizes of the model that were meant are known but for single fields.
  [[nodiscard]] bool has_model() const { return good({"model.preset", "model.hf_config"}); }

 private:
  const ConfigSource& source_;
  const Problems& problems_;
};

}  // namespace optimus
