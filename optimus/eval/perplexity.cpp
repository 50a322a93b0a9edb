#include "optimus/eval/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace optimus {

double TextScore::bits_per_byte() const { return bytes == 0 ? 0.0 : -logprob / std::numbers::ln2 / static_cast<double>(bytes); }

double TextScore::perplexity() const { return tokens == 0 ? 1.0 : std::exp(-logprob / static_cast<double>(tokens)); }

std::vector<EncodedRequest> sliding_windows(std::span<const std::int32_t> ids, Index max_positions) {
  std::vector<EncodedRequest> windows;
  const auto count = static_cast<Index>(ids.size());
  const Index stride = std::max<Index>(1, max_positions / 2);
  Index scored_end = 1;  // the first id is only context
  while (scored_end < count) {
    const bool is_first = windows.empty();
    const Index end = std::min(count, is_first ? max_positions + 1 : scored_end + stride);
    const Index begin = std::max<Index>(0, end - (max_positions + 1));
    windows.push_back({.ids = {ids.begin() + begin, ids.begin() + end}, .continuation_tokens = end - scored_end});
    scored_end = end;
  }
  return windows;
}

TextScore score_texts(Communicator& world, Backend& backend, const LoadedModel& model, const Tokenizer& tokenizer, std::span<const std::string> texts) {
  TextScore total;
  std::vector<EncodedRequest> windows;
  for (const std::string& text : texts) {
    std::vector<std::int32_t> ids;
    if (const auto end = tokenizer.end_of_document()) ids.push_back(*end);
    tokenizer.encode(text, ids);
    for (EncodedRequest& window : sliding_windows(ids, model.config.max_position_embeddings)) {
      total.tokens += window.continuation_tokens;
      windows.push_back(std::move(window));
    }
    total.bytes += static_cast<Index>(text.size());
    ++total.documents;
  }
  if (windows.empty()) throw DataError("[eval] the texts are empty: nothing to score");
  for (const RequestScore& score : score_requests(world, backend, model, windows)) total.logprob += score.logprob;
  return total;
}

}  // namespace optimus
