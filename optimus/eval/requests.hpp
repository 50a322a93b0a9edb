#pragma once
// Log-likelihood requests of benchmarks: reading them and turning them into token ids.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "optimus/data/tokenizer.hpp"

namespace optimus {

/// Lines with a doc_id from here on repeat the continuations of document doc_id - kUnconditionalOffset after a bare context; they are no documents of their own.
inline constexpr Index kUnconditionalOffset = 1'000'000;

/// How likely is `continuation` after `context`?
struct LikelihoodRequest {
  std::string task_name;
  Index doc_id = 0;
  Index choice = 0;  ///< "idx" in the file
  Index label = 0;   ///< the right choice of the document
  std::string context, continuation;
  std::string origin;  ///< "FILE:LINE", for messages
};

/// One request a line, plain or gzip.  Errors: DataError naming file and line.
[[nodiscard]] std::vector<LikelihoodRequest> read_requests(const std::filesystem::path& path);

/// A request as ids: `ids` without its last one is what the model reads; the last `continuation_tokens` of `ids` are what is scored.
struct EncodedRequest {
  std::vector<std::int32_t> ids;
  Index continuation_tokens = 0;
};

/// Encodes as lm-evaluation-harness does for causal models: white space at the end of the context moves to the continuation; the context is encoded alone,
/// the continuation is what encoding both together adds after as many ids; an empty context becomes the end-of-document id; at most `max_positions` + 1 ids,
/// cut on the left.
/// Errors: DataError naming the request's file and line: a context of white space only, nothing to score, more to score than the model has positions, an
///         empty context without an end-of-document id.
[[nodiscard]] EncodedRequest encode_request(const Tokenizer& tokenizer, const LikelihoodRequest& request, Index max_positions);

}  // namespace optimus
