#include "optimus/launch/policy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/counted.hpp"

namespace optimus::launch {
namespace {

constexpr Index kTriesOnOneNode = 3;  // a run that fails in the same step so often, with nothing else to change, will fail again

bool contains(const std::vector<std::string>& names, const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); }

Decision over(ExitCode code, std::string line) {
  Decision decision{.is_over = true, .code = code};
  decision.lines.push_back(std::move(line));
  return decision;
}

/// Ends that no other node can change; nothing for the rest.
std::string final_words(ExitCode code) {
  switch (code) {
    case ExitCode::kDone: return "the run is done";
    case ExitCode::kStoppedBySignal: return "the run has saved and stopped as asked; the same command goes on from there";
    case ExitCode::kConfig: return "the configuration or the command line is wrong, as said above; correct it and start again";
    case ExitCode::kData: return "the data cannot be used, as said above; repair them (optimus dataset verify) and start again";
    case ExitCode::kCheckpoint:
      return "no checkpoint can be used, as said above; look at them with optimus checkpoint verify, or start anew with --resume never";
    default: return "";
  }
}

}  // namespace

Policy::Policy(const std::vector<Host>& hosts, World world, PolicyOptions options)
    : world_(world),
      options_(std::move(options)),
      active_(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(world.nodes)),
      spares_(hosts.begin() + static_cast<std::ptrdiff_t>(world.nodes), hosts.end()),
      budget_(options_.max_restarts, options_.restarts_per_hour) {}

Decision Policy::after(const Diagnosis& d, const std::map<std::string, std::string>& unfit, double now_s) {
  if (const std::string words = final_words(d.code); !words.empty()) return over(d.code, words);
  Decision decision;
  std::vector<std::string> unfit_active;
  remove_unfit(unfit, unfit_active, decision);
  // A node that is unfit explains its failure; only failures without such a cause can be the run's own.
  if (unfit_active.empty() && is_repeated(d, decision)) return decision;
  if (is_out_of_budget(d, now_s, decision)) return decision;
  replace(unfit_active, d.blamed, decision);
  if (static_cast<Index>(active_.size()) < world_.nodes && !shrink(decision)) return decision;
  consecutive_ = d.step > furthest_step_ ? 1 : consecutive_ + 1;
  furthest_step_ = std::max(furthest_step_, d.step);
  budget_.use(now_s);
  decision.delay_s = backoff_s(consecutive_, options_.first_delay_s, options_.longest_delay_s);
  decision.lines.push_back(fmt::format("restart {} of at most {}, {:.0f} s or more after the failure: {} on {}", budget_.used(), options_.max_restarts,
                                       decision.delay_s, counted(world_.ranks(), "rank"), counted(world_.nodes, "node")));
  return decision;
}

void Policy::remove_unfit(const std::map<std::string, std::string>& unfit, std::vector<std::string>& unfit_active, Decision& decision) {
  for (const auto& [name, problem] : unfit) {
    const auto is_it = [&](const Host& host) { return host.name == name; };
    if (std::any_of(active_.begin(), active_.end(), is_it)) unfit_active.push_back(name);
    std::erase_if(spares_, is_it);
    decision.lines.push_back(fmt::format("node {} is not used any more: {}", name, problem));
  }
}

bool Policy::is_repeated(const Diagnosis& d, Decision& decision) {
  if (d.step != crash_.step || d.code != crash_.code) crash_ = {.step = d.step, .code = d.code};
  const bool is_elsewhere = !d.blamed.empty() && !crash_.nodes.empty() &&
                            std::none_of(d.blamed.begin(), d.blamed.end(), [&](const std::string& node) { return contains(crash_.nodes, node); });
  ++crash_.count;
  const std::string before = fmt::format("{}", fmt::join(crash_.nodes, ", "));
  for (const std::string& node : d.blamed)
    if (!contains(crash_.nodes, node)) crash_.nodes.push_back(node);
  std::string words;
  ExitCode code = d.code;
  if (is_elsewhere) {
    words = fmt::format(
        "step {} failed on {} and now on {}: this is the run's own fault, not a node's, and would come again. Find the cause in failures.jsonl and "
        "log.txt; the last checkpoint is intact",
        d.step, before, fmt::join(d.blamed, ", "));
  } else if (crash_.count >= kTriesOnOneNode && d.blamed.empty()) {
    words = fmt::format("step {} has failed {} times without a node to blame: it would come again. Find the cause in log.txt; the last checkpoint is intact",
                        d.step, crash_.count);
  } else if (crash_.count >= kTriesOnOneNode) {
    code = ExitCode::kNoSpareNode;
    words = fmt::format(
        "step {} has failed {} times on {}, and no other node is left to try it on. Start again with other nodes (or buffer nodes: --nodes below "
        "the number of hosts); if it fails there too, it is the run's own fault",
        d.step, crash_.count, fmt::join(crash_.nodes, ", "));
  }
  if (words.empty()) return false;
  decision.is_over = true;
  decision.code = code;
  decision.lines.push_back(words);
  return true;
}

bool Policy::is_out_of_budget(const Diagnosis& d, double now_s, Decision& decision) {
  std::string words;
  if (budget_.is_used_up()) words = fmt::format("--max-restarts allows no more than {}", counted(options_.max_restarts, "restart"));
  else if (budget_.is_hour_full(now_s))
    words = fmt::format("--restarts-per-hour allows no more than {} within an hour", counted(options_.restarts_per_hour, "restart"));
  if (words.empty()) return false;
  decision.is_over = true;
  decision.code = d.code;
  decision.lines.push_back(words + ". Find the cause in failures.jsonl; the same command goes on from the last checkpoint");
  return true;
}

std::optional<Host> Policy::take_spare() {
  if (spares_.empty()) return std::nullopt;
  const auto fresh = std::find_if(spares_.begin(), spares_.end(), [&](const Host& host) { return !contains(suspects_, host.name); });
  const auto taken = fresh != spares_.end() ? fresh : spares_.begin();
  Host host = *taken;
  spares_.erase(taken);
  return host;
}

void Policy::replace(const std::vector<std::string>& unfit_active, const std::vector<std::string>& blamed, Decision& decision) {
  const auto exchange = [&](Host& host) {
    const std::optional<Host> other = take_spare();
    if (!other) return false;
    decision.replaced.emplace_back(host.name, other->name);
    decision.lines.push_back(fmt::format("node {} is replaced by {}", host.name, other->name));
    host = *other;
    return true;
  };
  // What cannot run at all comes first: whoever waited for it may be blamed as well, and must not take the last buffer node.
  std::vector<Host> fit;
  for (Host& host : active_)
    if (!contains(unfit_active, host.name) || exchange(host)) fit.push_back(host);
  active_ = std::move(fit);
  std::vector<Host> suspects;
  for (Host& host : active_) {
    const Host before = host;
    if (!contains(blamed, host.name)) continue;
    if (exchange(host)) suspects.push_back(before);
    else decision.lines.push_back(fmt::format("node {} passed its examination and is used again: there is no buffer node to take its place", host.name));
  }
  for (const Host& host : suspects) {
    spares_.push_back(host);
    if (!contains(suspects_, host.name)) suspects_.push_back(host.name);
  }
}

bool Policy::shrink(Decision& decision) {
  const auto left = static_cast<Index>(active_.size());
  std::string refused;
  const World smaller = options_.may_shrink ? largest_fitting_world(left, world_.ranks_per_node, options_.problem_with, refused) : World{.nodes = 0};
  if (smaller.nodes == 0) {
    decision.is_over = true;
    decision.code = ExitCode::kNoSpareNode;
    std::string words = fmt::format("no buffer node is left: {} of {} can be used", left, counted(world_.nodes, "node"));
    if (!options_.may_shrink) words += ". Start again with other nodes, or let the run go on with fewer by --allow-shrink";
    else if (refused.empty()) words += ", and the run cannot go on with none. Start again with other nodes";
    else words += fmt::format(", and the configuration does not fit fewer. Start again with other nodes, or another batch.global_batch:{}", refused);
    decision.lines.push_back(words + "; the last checkpoint is intact");
    return false;
  }
  decision.lines.push_back(fmt::format("no buffer node is left: the run goes on with {} ({}) instead of {}, with the same global batch{}",
                                       counted(smaller.nodes, "node"), counted(smaller.ranks(), "rank"), world_.nodes,
                                       refused.empty() ? "" : "; more do not fit:" + refused));
  spares_.insert(spares_.end(), active_.begin() + static_cast<std::ptrdiff_t>(smaller.nodes), active_.end());
  active_.resize(static_cast<std::size_t>(smaller.nodes));
  world_ = smaller;
  return true;
}

}  // namespace optimus::launch
