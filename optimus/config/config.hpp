#pragma once
// What a program does with a configuration struct: read, dump, document, hash. How a struct is declared stands in field.hpp.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optimus/base/hash.hpp"
#include "optimus/config/document.hpp"
#include "optimus/config/reader.hpp"
#include "optimus/config/source.hpp"
#include "optimus/config/writer.hpp"

namespace optimus {

/// A Config filled from `source`.
///
/// In this order: the fields; `resolve(Config&, const ConfigSource&, Problems&)`, for what follows from files or presets named in the
/// configuration (source.is_set(key) tells a default from a value that somebody wrote); validate() of every table and of the whole.
/// Errors: ConfigError listing every problem found in all of these, each with file and line (or the override), key, value and what is allowed.
template <class Config, class Resolve>
[[nodiscard]] Config read_config(ConfigSource source, Resolve resolve) {
  Config config;
  ConfigReader reader(source);
  describe(reader, config);
  source.find_unknown_keys();
  ConfigValidator validator;
  resolve(config, std::as_const(source), validator.problems());
  validator.run(config);
  source.add_problems(validator.problems());
  source.throw_if_problems();
  return config;
}

template <class Config, class Resolve>
[[nodiscard]] Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides, Resolve resolve) {
  return read_config<Config>(ConfigSource::from_file(path, overrides), resolve);
}

/// The same without anything to resolve.
template <class Config>
[[nodiscard]] Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides = {}) {
  return read_config<Config>(path, overrides, [](Config&, const ConfigSource&, Problems&) {});
}

/// The same from a text; `name` stands for the file in messages.
template <class Config>
[[nodiscard]] Config read_config_text(std::string_view text, std::string name = "text", const std::vector<std::string>& overrides = {}) {
  return read_config<Config>(ConfigSource(text, std::move(name), overrides), [](Config&, const ConfigSource&, Problems&) {});
}

/// TOML with every value written out; read_config() of it gives an equal struct.
template <class Config>
[[nodiscard]] std::string dump_config(Config config) {
  ConfigWriter writer;
  describe(writer, config);
  return writer.text();
}

/// Markdown: every key with its default, what is allowed and what it means.
template <class Config>
[[nodiscard]] std::string document_config() {
  Config config;
  ConfigDocument document;
  describe(document, config);
  return document.text();
}

/// Equal for equal values, whatever file and overrides they came from.
template <class Config>
[[nodiscard]] std::uint64_t hash_config(const Config& config) {
  return xxh64(dump_config(config));
}

}  // namespace optimus
