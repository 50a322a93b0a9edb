// The steps around the merges: normaliser, pre-tokenizer, decoder, post-processor.

#include "optimus/base/log.hpp"
#include "optimus/data/tokenizer_file.hpp"
#include "optimus/data/tokenizer_json.hpp"

namespace optimus {
namespace {

// GPT-2's words, Radford et al. 2019: contractions, then letters, numbers and the rest, each with at most one space before, then white space.
constexpr std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior behavior_of(const JsonNode& node) {
  const std::string_view name = node.text();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.fail("no such behavior: " + JsonNode::quoted(name));
}

SplitStage split_stage(const JsonNode& node) {
  SplitStage stage;
  const JsonNode pattern = node.at("pattern");
  try {
    stage.pattern = pattern.has("Regex") ? translate_pattern(pattern.at("Regex").text()) : escape_pattern(pattern.at("String").text());
    if (!stage.pattern.empty()) static_cast<void>(Pattern(stage.pattern));
  } catch (const DataError& error) {
    if (std::string_view(error.what()).starts_with("[tokenizer]")) throw;
    pattern.fail(error.what());
  }
  if (stage.pattern.empty()) pattern.fail("is empty");
  stage.behavior = behavior_of(node.at("behavior"));
  stage.invert = node.flag("invert", false);
  return stage;
}

bool is_byte_level(const JsonNode& node) { return node.at("type").text() == "ByteLevel"; }

void read_stage(const JsonNode& node, TokenizerFile& file, bool& done) {
  const std::string_view type = node.at("type").text();
  if (done) node.fail("comes after ByteLevel, which must be the last step");
  if (type == "Sequence") {
    node.at("pretokenizers").each([&](const JsonNode& step) { read_stage(step, file, done); });
  } else if (type == "Split") {
    file.stages.push_back(split_stage(node));
  } else if (type == "Digits") {
    const bool each = node.flag("individual_digits", false);
    file.stages.push_back({.pattern = R"(\p{N})", .behavior = each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (type == "ByteLevel") {
    SplitStage stage;
    stage.add_prefix_space = node.flag("add_prefix_space", true);
    if (node.flag("use_regex", true)) stage.pattern = translate_pattern(kGpt2Pattern);
    if (stage.add_prefix_space || !stage.pattern.empty()) file.stages.push_back(stage);
    done = true;
  } else {
    node.fail("pre-tokenizer " + JsonNode::quoted(type) + " is not supported (ByteLevel, Split, Digits, Sequence are)");
  }
}

}  // namespace

void read_normalizer(const JsonNode& node, TokenizerFile& file) {
  if (node.is_null()) return;
  const std::string_view type = node.at("type").text();
  if (type == "NFC") {
    file.normalization.push_back(NormalizationForm::kNfc);
  } else if (type == "NFD") {
    file.normalization.push_back(NormalizationForm::kNfd);
  } else if (type == "NFKC") {
    file.normalization.push_back(NormalizationForm::kNfkc);
  } else if (type == "NFKD") {
    file.normalization.push_back(NormalizationForm::kNfkd);
  } else if (type == "Sequence") {
    node.at("normalizers").each([&](const JsonNode& step) { read_normalizer(step, file); });
  } else {
    node.fail("normalizer " + JsonNode::quoted(type) + " is not supported (NFC, NFD, NFKC, NFKD, Sequence are)");
  }
}

void read_pre_tokenizer(const JsonNode& node, TokenizerFile& file) {
  bool done = false;
  if (!node.is_null()) read_stage(node, file, done);
  if (!done) node.fail("has no ByteLevel step; only byte-level BPE is supported");
}

void check_decoder(const JsonNode& node) {
  if (node.is_null()) node.fail("is missing; byte-level BPE needs the ByteLevel decoder");
  if (node.at("type").text() == "Sequence") {
    bool all = true;
    std::size_t steps = 0;
    node.at("decoders").each([&](const JsonNode& step) {
      all = all && is_byte_level(step);
      ++steps;
    });
    if (all && steps == 1) return;
  } else if (is_byte_level(node)) {
    return;
  }
  node.fail("decoder " + JsonNode::quoted(node.at("type").text()) + " is not supported (ByteLevel is)");
}

void check_post_processor(const JsonNode& node) {
  if (node.is_null() || is_byte_level(node)) return;
  const std::string_view type = node.at("type").text();
  if (type == "Sequence") {
    node.at("processors").each([](const JsonNode& step) { check_post_processor(step); });
  } else if (type == "TemplateProcessing") {
    bool adds = false;
    node.at("single").each([&](const JsonNode& piece) { adds = adds || piece.has("SpecialToken"); });
    if (adds) log_warning("[tokenizer] the file's post_processor would add special tokens around a text; texts are encoded without them");
  } else {
    node.fail("post-processor " + JsonNode::quoted(type) + " is not supported (ByteLevel, TemplateProcessing, Sequence are)");
  }
}

}  // namespace optimus
