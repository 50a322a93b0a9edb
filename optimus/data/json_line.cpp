#include "optimus/data/json_line.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "optimus/base/error.hpp"
#include "optimus/data/utf8.hpp"

namespace optimus {

struct JsonLine::Impl {
  std::shared_ptr<simdjson::dom::parser> parser;  // owns what `object` points into
  simdjson::dom::object object;

  [[nodiscard]] simdjson::dom::element at(std::string_view key) const {
    simdjson::dom::element value;
    if (object.at_key(key).get(value)) throw DataError(fmt::format("has no \"{}\"", key));
    return value;
  }
};

namespace {

template <class T> T value_of(const simdjson::dom::element& element, std::string_view key, std::string_view kind) {
  T value;
  if (element.get(value)) throw DataError(fmt::format("\"{}\" must be {}, not {}", key, kind, simdjson::to_string(element).substr(0, 40)));
  return value;
}

}  // namespace

JsonLine::JsonLine(std::string_view line) {
  if (const Index at = find_ill_formed(line); at >= 0) throw DataError(fmt::format("not UTF-8 at byte {}", at + 1));
  auto impl = std::make_shared<Impl>();
  impl->parser = std::make_shared<simdjson::dom::parser>();
  simdjson::dom::element document;
  if (const auto error = impl->parser->parse(line.data(), line.size()).get(document))
    throw DataError(fmt::format("broken JSON: {}", simdjson::error_message(error)));
  if (document.get(impl->object)) throw DataError("must be a JSON object");
  impl_ = std::move(impl);
}

JsonLine JsonLine::object(std::string_view key) const {
  auto impl = std::make_shared<Impl>();
  impl->parser = impl_->parser;
  impl->object = value_of<simdjson::dom::object>(impl_->at(key), key, "an object");
  return JsonLine(std::move(impl));
}

std::string_view JsonLine::text(std::string_view key) const { return value_of<std::string_view>(impl_->at(key), key, "a string"); }

Index JsonLine::whole_number(std::string_view key) const { return value_of<std::int64_t>(impl_->at(key), key, "a whole number"); }

std::vector<std::int32_t> JsonLine::ids(std::string_view key, Index vocab_size) const {
  const auto list = value_of<simdjson::dom::array>(impl_->at(key), key, "an array of ids");
  std::vector<std::int32_t> ids;
  for (const simdjson::dom::element item : list) {
    std::int64_t id = -1;
    if (item.get(id) || id < 0) throw DataError(fmt::format("{} is no id", simdjson::to_string(item).substr(0, 40)));
    if (id >= vocab_size) throw DataError(fmt::format("id {} is not below the vocabulary's {}", id, vocab_size));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

}  // namespace optimus
