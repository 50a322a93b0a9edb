#include "optimus/eval/requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "optimus/base/counted.hpp"
#include "optimus/data/byte_stream.hpp"
#include "optimus/data/json_line.hpp"

namespace optimus {
namespace {

/// Python's str.isspace, which the rule is written in.
bool is_python_space(char32_t c) {
  if ((c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || (c >= 0x2000 && c <= 0x200A)) return true;
  constexpr std::array<char32_t, 8> kOthers = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return std::find(kOthers.begin(), kOthers.end(), c) != kOthers.end();
}

/// Length of `text` without the white space at its end. `text` is valid UTF-8.
std::size_t trimmed_length(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
    const auto lead = static_cast<unsigned char>(text[begin]);
    char32_t c = lead;
    if (lead >= 0xE0U) c = lead & 0x0FU;
    else if (lead >= 0xC0U) c = lead & 0x1FU;
    for (std::size_t i = begin + 1; i < end; ++i) c = (c << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
    if (!is_python_space(c)) break;
    end = begin;
  }
  return end;
}

LikelihoodRequest parse_request(const std::string& line, const std::string& origin) {
  try {
    const JsonLine json(line);
    if (json.text("request_type") != "loglikelihood")
      throw DataError(fmt::format("request_type is \"{}\", only loglikelihood is known", json.text("request_type")));
    const JsonLine request = json.object("request");
    return {.task_name = std::string(json.text("task_name")),
            .doc_id = json.whole_number("doc_id"),
            .choice = json.whole_number("idx"),
            .label = json.whole_number("label"),
            .context = std::string(request.text("context")),
            .continuation = std::string(request.text("continuation")),
            .origin = origin};
  } catch (const DataError& error) {
    throw DataError(fmt::format("[eval] {}: not a request: {}", origin, error.what()));
  }
}

}  // namespace

std::vector<LikelihoodRequest> read_requests(const std::filesystem::path& path) {
  std::vector<LikelihoodRequest> requests;
  const auto stream = open_byte_stream(path, path.extension() == ".gz"    ? Compression::kGzip
                                             : path.extension() == ".zst" ? Compression::kZstd
                                                                          : Compression::kNone);
  Index line_number = 0;
  for_each_line(*stream, [&](const std::string& line) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") != std::string::npos) requests.push_back(parse_request(line, fmt::format("{}:{}", path.string(), line_number)));
  });
  if (requests.empty()) throw DataError(fmt::format("[eval] {}: no request in it", path.string()));
  return requests;
}

EncodedRequest encode_request(const Tokenizer& tokenizer, const LikelihoodRequest& request, Index max_positions) {
  EncodedRequest result;
  std::vector<std::int32_t> continuation;
  if (request.context.empty()) {
    const auto end = tokenizer.end_of_document();
    if (!end) throw DataError(fmt::format("[eval] {}: an empty context needs an end-of-document token, and {} has none", request.origin, tokenizer.name()));
    tokenizer.encode(request.continuation, continuation);
    result.ids = {*end};
    if (!continuation.empty() && continuation.front() == *end) continuation.erase(continuation.begin());
  } else {
    const std::size_t length = trimmed_length(request.context);
    if (length == 0) throw DataError(fmt::format("[eval] {}: the context is white space only", request.origin));
    std::vector<std::int32_t> whole;
    tokenizer.encode(std::string_view(request.context).substr(0, length), result.ids);
    tokenizer.encode(request.context + request.continuation, whole);
    if (whole.size() > result.ids.size()) continuation.assign(whole.begin() + static_cast<std::ptrdiff_t>(result.ids.size()), whole.end());
  }
  result.continuation_tokens = static_cast<Index>(continuation.size());
  if (continuation.empty()) throw DataError(fmt::format("[eval] {}: the continuation adds no token: nothing to score", request.origin));
  if (result.continuation_tokens > max_positions) {
    throw DataError(fmt::format("[eval] {}: the continuation has {}, the model {}", request.origin, counted(result.continuation_tokens, "token"),
                                counted(max_positions, "position")));
  }
  result.ids.insert(result.ids.end(), continuation.begin(), continuation.end());
  const Index surplus = static_cast<Index>(result.ids.size()) - (max_positions + 1);
  if (surplus > 0) result.ids.erase(result.ids.begin(), result.ids.begin() + surplus);
  return result;
}

}  // namespace optimus
