#pragma once
// Byte-level BPE as Hugging Face's tokenizers library computes it.

#include <filesystem>
#include <memory>

#include "optimus/data/tokenizer.hpp"

namespace optimus {

/// Reads and checks a tokenizer.json.  Errors: DataError, as read_tokenizer_file.
[[nodiscard]] std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::filesystem::path& path);
/// Ids 0 to 255 are the bytes, 256 ends a document.
[[nodiscard]] std::unique_ptr<Tokenizer> make_bytes_tokenizer();

}  // namespace optimus
