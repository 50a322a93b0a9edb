#include "optimus/eval/tasks.hpp"

#include <algorithm>
#include <limits>

namespace optimus {
namespace {

/// Code points of the continuation without its one leading space.
Index normalising_length(std::string_view text) {
  if (text.starts_with(' ')) text.remove_prefix(1);
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

/// The best choice of a document so far, by one measure.
struct Pick {
  double value = -std::numeric_limits<double>::infinity();
  Index choice = -1;
  void offer(double candidate, Index index) {
    if (candidate > value || choice < 0) *this = {.value = candidate, .choice = index};
  }
};

struct Document {
  Pick plain, normalised;
  Index label = 0;
};

}  // namespace

std::map<std::string, TaskScore> score_tasks(std::span<const LikelihoodRequest> requests, std::span<const RequestScore> scores) {
  std::map<std::string, std::map<Index, Document>> tasks;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const LikelihoodRequest& request = requests[i];
    if (request.doc_id >= kUnconditionalOffset) continue;
    Document& document = tasks[request.task_name][request.doc_id];
    document.label = request.label;
    document.plain.offer(scores[i].logprob, request.choice);
    const auto length = static_cast<double>(std::max<Index>(1, normalising_length(request.continuation)));
    document.normalised.offer(scores[i].logprob / length, request.choice);
  }
  std::map<std::string, TaskScore> results;
  for (const auto& [name, documents] : tasks) {
    TaskScore& score = results[name];
    score.documents = static_cast<Index>(documents.size());
    for (const auto& [id, document] : documents) {
      score.acc += document.plain.choice == document.label ? 1 : 0;
      score.acc_norm += document.normalised.choice == document.label ? 1 : 0;
    }
    score.acc /= static_cast<double>(score.documents);
    score.acc_norm /= static_cast<double>(score.documents);
  }
  return results;
}

}  // namespace optimus
