#pragma once
// What a call of `prepare` is about, before it does anything. Private to prepare.

#include <map>
#include <memory>
#include <optional>

#include "optimus/data/corpus_parts.hpp"
#include "optimus/data/prepare.hpp"
#include "optimus/data/tokenizer.hpp"

namespace optimus {

/// Options looked at closely: the tokenizer read, the end of document known, the files found.
struct PreparePlan {
  std::unique_ptr<Tokenizer> tokenizer;  ///< null: given ids only
  Index end_of_document = -1;
  TokenType token_type = TokenType::kU32;  ///< of the ids in `work`
  TokenType raw_type = TokenType::kU16;
  std::vector<InputFile> files;
  std::vector<CorpusPart> parts;
  std::map<std::string, std::string> made_from;  ///< everything that decides the bytes
};

/// Errors: as prepare.
[[nodiscard]] PreparePlan make_prepare_plan(const PrepareOptions& options);
/// Errors: ConfigError naming each difference, if `other` (what the folder was begun with) is not this plan.
void check_same_plan(const PreparePlan& plan, const std::map<std::string, std::string>& other, const std::filesystem::path& folder);

}  // namespace optimus
