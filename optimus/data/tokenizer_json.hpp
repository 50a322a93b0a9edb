#pragma once
// Reading a tokenizer.json piece by piece, with messages that say where. Internal to the tokenizer reader: the only header here that needs simdjson.

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "optimus/base/error.hpp"

namespace optimus {

/// A value in the file and its place ("model.merges[12]").
class JsonNode {
 public:
  /// Nothing stands for a member that is absent.
  JsonNode(const std::string& file, std::string place, std::optional<simdjson::dom::element> value) : file_(&file), place_(std::move(place)), value_(value) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("[tokenizer] " + *file_ + ": " + (place_.empty() ? std::string() : place_ + ": ") + what);
  }
  [[nodiscard]] simdjson::dom::element value() const {
    if (!value_) fail("is missing");
    return *value_;
  }
  [[nodiscard]] bool is_null() const { return !value_ || value_->is_null(); }
  [[nodiscard]] bool is_string() const { return value().is_string(); }

  /// A member that must be there.
  [[nodiscard]] JsonNode at(std::string_view key) const {
    simdjson::dom::element found;
    if (object().at_key(key).get(found)) fail("has no " + quoted(key));
    return child(key, found);
  }
  /// A member that may be absent or null; both read as null.
  [[nodiscard]] JsonNode find(std::string_view key) const {
    simdjson::dom::element found;
    if (object().at_key(key).get(found)) return child(key, std::nullopt);
    return child(key, found);
  }
  [[nodiscard]] bool has(std::string_view key) const {
    simdjson::dom::element found;
    return !object().at_key(key).get(found) && !found.is_null();
  }
  [[nodiscard]] simdjson::dom::object object() const {
    simdjson::dom::object o;
    if (value().get(o)) fail("must be an object");
    return o;
  }
  [[nodiscard]] std::string_view text() const {
    std::string_view s;
    if (value().get(s)) fail("must be a string");
    return s;
  }
  [[nodiscard]] std::int64_t integer() const {
    std::int64_t i = 0;
    if (value().get(i)) fail("must be a whole number");
    return i;
  }
  [[nodiscard]] bool flag(std::string_view key, bool when_absent) const {
    if (!has(key)) return when_absent;
    bool b = false;
    const JsonNode node = at(key);
    if (node.value().get(b)) node.fail("must be true or false");
    return b;
  }
  /// Calls visit(JsonNode) for each element of an array.
  template <class Visit> void each(Visit&& visit) const {
    simdjson::dom::array a;
    if (value().get(a)) fail("must be an array");
    std::size_t i = 0;
    for (const simdjson::dom::element item : a) visit(JsonNode(*file_, place_ + "[" + std::to_string(i++) + "]", item));
  }
  [[nodiscard]] static std::string quoted(std::string_view s) { return std::string(1, '"').append(s) += '"'; }

 private:
  [[nodiscard]] JsonNode child(std::string_view key, std::optional<simdjson::dom::element> found) const {
    return {*file_, place_.empty() ? std::string(key) : place_ + "." + std::string(key), found};
  }
  const std::string* file_;
  std::string place_;
  std::optional<simdjson::dom::element> value_;
};

struct TokenizerFile;

/// The parts around the model. null stands for none.  Errors: DataError naming the part that is not supported.
void read_normalizer(const JsonNode& node, TokenizerFile& file);
void read_pre_tokenizer(const JsonNode& node, TokenizerFile& file);
void check_decoder(const JsonNode& node);
/// Nothing is added to texts here, so the post-processor is only looked at.
void check_post_processor(const JsonNode& node);

}  // namespace optimus
