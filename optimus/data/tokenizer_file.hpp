#pragma once
// What a Hugging Face tokenizer.json says, checked: byte-level BPE and nothing else.

#include <filesystem>
#include <string>
#include <vector>

#include "optimus/data/added_tokens.hpp"
#include "optimus/data/merges.hpp"
#include "optimus/data/normalizer.hpp"
#include "optimus/data/splitter.hpp"

namespace optimus {

struct TokenizerFile {
  std::string name;                 ///< of the file, without its folder
  std::string checksum;             ///< xxh64 of its bytes
  std::vector<std::string> tokens;  ///< by id, as the file spells them
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizationForm> normalization;
  std::vector<SplitStage> stages;
  std::vector<Merge> merges;
  ByteTokens bytes;
  bool ignore_merges = false;  ///< a word that is a token as a whole is taken as that
};

/// Reads `path`.
/// Errors: DataError naming the file and the place in it: missing, not JSON, not BPE, an unknown part, merges of unknown tokens, ids twice or missing.
[[nodiscard]] TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

}  // namespace optimus
