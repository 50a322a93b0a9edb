#pragma once
// One token at a time with a key/value cache, for generation.

#include <memory>
#include <span>

#include "optimus/model/transformer.hpp"

namespace optimus {

/// A sequence being extended. The same logits as Transformer::forward over the whole sequence, to rounding.
class Decoder {
 public:
  /// `max_tokens`: longest sequence, prompt included. `weights` in the order of parameter_specs.
  Decoder(const TransformerOptions& options, Backend& backend, std::span<const View> weights, Index max_tokens);
  ~Decoder();
  /// Appends `ids` (at least one) and returns the logits after the last of them, f32 [V], valid until the next call.
  /// Errors: ConfigError when the sequence would become longer than max_tokens.
  [[nodiscard]] std::span<const float> append(std::span<const std::int32_t> ids);
  [[nodiscard]] Index length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optimus
