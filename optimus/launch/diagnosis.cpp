#include "optimus/launch/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <regex>

namespace optimus::launch {
namespace {

std::string short_name(const std::string& name) { return name.substr(0, name.find('.')); }

/// The node that is meant by the name a rank or starter gave, or by the rank where names do not tell (one name for several nodes, or an unknown one).
std::string node_of(const std::string& name, Index rank, const std::vector<UsedNode>& nodes, Index ranks_per_node) {
  const auto is_meant = [&](const UsedNode& node) {
    return !name.empty() &&
           (node.host == name || node.own_name == name || short_name(node.host) == short_name(name) || short_name(node.own_name) == short_name(name));
  };
  const auto first = std::find_if(nodes.begin(), nodes.end(), is_meant);
  if (std::count_if(nodes.begin(), nodes.end(), is_meant) == 1) return first->host;
  const Index at = rank >= 0 ? rank / ranks_per_node : -1;
  if (at >= 0 && at < static_cast<Index>(nodes.size())) return nodes[static_cast<std::size_t>(at)].host;
  return first != nodes.end() ? first->host : "";
}

/// The rank that a message accuses: what rank 0 writes about another's error, or about one that it waited for in vain, has its own name on it.
Index accused_rank(const Failure& failure) {
  static const std::regex first_word(R"(^rank (\d+): )"), silent(R"(nothing (?:came from|is taken by) rank (\d+))");
  std::smatch match;
  const bool is_found = std::regex_search(failure.message, match, first_word) || (failure.kind == "lost" && std::regex_search(failure.message, match, silent));
  return is_found ? std::strtoll(match[1].str().c_str(), nullptr, 10) : failure.rank;
}

/// The line that names the cause: a rank that was stuck knows it better than those that waited for it.
const Failure& cause_among(const std::vector<Failure>& failures) {
  const auto stuck = std::find_if(failures.begin(), failures.end(), [](const Failure& f) { return f.kind == "hang"; });
  return failures.front().kind == "lost" && stuck != failures.end() ? *stuck : failures.front();
}

bool is_number(const Failure& failure) { return failure.kind == "nan" || failure.kind == "inf"; }

ExitCode code_of(const RunEnd& end, const std::string& kind) {
  if (end.code == 0) return ExitCode::kDone;
  if (kind == "nan" || kind == "inf") return ExitCode::kNonFinite;
  if (end.was_stuck || end.was_nobody_left || kind == "lost" || kind == "hang" || kind == "killed") return ExitCode::kLostRank;
  switch (end.code) {
    case 2:
    case 3:
    case 4:
    case 10:
    case 11:
    case 12: return static_cast<ExitCode>(end.code);
    default: return end.code > 128 ? ExitCode::kLostRank : ExitCode::kFailure;
  }
}

void blame(Diagnosis& d, const std::string& host) {
  if (!host.empty() && std::find(d.blamed.begin(), d.blamed.end(), host) == d.blamed.end()) d.blamed.push_back(host);
}

}  // namespace

Diagnosis diagnose(const RunEnd& end, const std::vector<UsedNode>& nodes, Index ranks_per_node) {
  Diagnosis d{.step = end.last_step + 1};
  const auto where = [&](const std::string& name, Index rank) { return node_of(name, rank, nodes, ranks_per_node); };
  std::vector<Failure> failures;
  std::copy_if(end.failures.begin(), end.failures.end(), std::back_inserter(failures), [](const Failure& f) { return f.kind != "write"; });
  if (end.report.has_culprit() && !end.was_stuck) {  // else it tells of ranks that we have ended ourselves
    d.kind = end.report.is_lost_node ? "lost" : "killed";
    d.rank = end.report.rank;
    blame(d, where(end.report.host, d.rank));
    const std::string host = d.blamed.empty() ? end.report.host : d.blamed.front();
    if (end.report.is_lost_node) d.text = fmt::format("node {} was lost in step {}", host, d.step);
    else if (d.rank >= 0) d.text = fmt::format("rank {} on {} was ended by signal {} in step {}", d.rank, host, end.report.signal, d.step);
    else d.text = fmt::format("a rank on {} was ended in step {}", host, d.step);
  } else if (!failures.empty()) {
    const Failure& first = cause_among(failures);
    d.kind = first.kind;
    d.step = first.step;
    d.rank = accused_rank(first);
    blame(d, where(d.rank == first.rank ? first.host : "", d.rank));
    for (const Failure& failure : failures)
      if (is_number(first) && is_number(failure) && failure.step == first.step) blame(d, where(failure.host, failure.rank));
    const std::string host = d.blamed.empty() ? first.host : d.blamed.front();
    d.text = fmt::format("{} on rank {} ({}) in step {}: {}", first.kind, d.rank, host, first.step, first.message);
  } else {
    d.text = fmt::format("it ended in step {} and left no word about the cause in failures.jsonl", d.step);
    if (!end.last_words.empty()) d.text += "; it said:\n" + end.last_words;
  }
  if (end.was_stuck) d.text += "; it made no progress and was ended from outside";
  if (end.was_nobody_left) d.text += "; its ranks were gone, but the starter did not end by itself";
  d.code = code_of(end, d.kind);
  return d;
}

}  // namespace optimus::launch
