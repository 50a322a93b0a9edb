#include "optimus/train/run_failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <thread>

#include "optimus/base/error.hpp"
#include "optimus/base/log.hpp"
#include "optimus/train/failure_log.hpp"

namespace optimus {
namespace {

/// As it travels: the order, a blank, the words.
NumberProblem parse_problem(const std::string& text) {
  NumberProblem problem;
  const auto blank = text.find(' ');
  if (blank == std::string::npos) return problem;
  std::from_chars(text.data(), text.data() + blank, problem.order);
  problem.what = text.substr(blank + 1);
  return problem;
}

CommError lost(Index rank, const std::string& message) {
  CommError error(message);
  error.set_rank(narrow<int>(rank));
  return error;
}

/// Runs `action` and goes on without it after `limit_s`: it may be stuck in a file system.
template <class Action> void try_for(double limit_s, const Action& action) {
  auto done = std::make_shared<std::promise<void>>();
  auto is_done = done->get_future();
  std::thread([action, done] {
    action();
    done->set_value();
  }).detach();
  is_done.wait_for(std::chrono::duration<double>(limit_s));
}

}  // namespace

RunFailures::RunFailures(Communicator& world, const Heartbeats& heartbeats, std::filesystem::path run_dir, double watchdog_s, const Mesh& mesh)
    : world_(world),
      heartbeats_(heartbeats),
      run_dir_(std::move(run_dir)),
      watchdog_s_(watchdog_s),
      bytes_before_(failure_log_bytes(run_dir_)),
      hosts_(all_gather_text(world, host_name())) {
  for (Index rank = 0; rank < world.size(); ++rank) model_of_.push_back(mesh.member_index(rank, Axis::kDp));
}

std::string RunFailures::describe(const NumberProblem& mine, Index step) {
  std::vector<NumberProblem> problems;
  for (const std::string& text : all_gather_text(world_, mine.what.empty() ? "" : fmt::format("{} {}", mine.order, mine.what)))
    problems.push_back(parse_problem(text));
  std::map<Index, Index> first;  // of each model
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].what.empty()) continue;
    const auto [known, is_new] = first.try_emplace(model_of_[rank], problems[rank].order);
    if (!is_new) known->second = std::min(known->second, problems[rank].order);
  }
  if (first.empty()) return "";
  recorded_step_ = step;
  std::string began, reached;
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    const std::string& what = problems[rank].what;
    if (what.empty()) continue;
    if (problems[rank].order > first.at(model_of_[rank])) {
      reached += fmt::format("{} {}", reached.empty() ? "" : ",", rank);
      continue;
    }
    began += fmt::format("{} {} on rank {} ({})", began.empty() ? "" : ",", what, rank, hosts_[rank]);
    if (world_.rank() == 0)
      try_append_failure(run_dir_, {.step = step, .rank = static_cast<Index>(rank), .host = hosts_[rank], .kind = what.substr(0, 3), .message = what});
  }
  return fmt::format("step {}:{}{}", step, began, reached.empty() ? "" : "; it reached rank" + reached);
}

void RunFailures::append(const RankPlace& place, const char* kind, const std::string& message) const noexcept {
  try_append_failure(run_dir_,
                     {.step = place.step, .rank = place.rank, .host = hosts_[static_cast<std::size_t>(place.rank)], .kind = kind, .message = message});
}

void RunFailures::append_hang(const RankPlace& place, const std::string& message) const noexcept { append_first(place, "hang", message); }

void RunFailures::append_first(const RankPlace& place, const char* kind, const std::string& message) const noexcept {
  try {
    (void)append_first_failure(run_dir_,
                               {.step = place.step, .rank = place.rank, .host = hosts_[static_cast<std::size_t>(place.rank)], .kind = kind, .message = message},
                               bytes_before_);
  } catch (const std::exception& error) {
    log_error("{}", error.what());
  }
}

void RunFailures::record(const std::exception& error, Index step) {
  if (world_.rank() != 0 || recorded_step_ == step) return;
  const auto* known = dynamic_cast<const Error*>(&error);
  const Index rank = known != nullptr && known->rank() >= 0 ? known->rank() : world_.rank();
  const std::string kind = failure_kind(error);
  if (kind == "lost") append_first({.rank = rank, .step = step}, "lost", error.what());
  else append({.rank = rank, .step = step}, kind.c_str(), error.what());
}

std::vector<RankPlace> RunFailures::silent() const {
  if (world_.size() == 1) return {};
  return heartbeats_.silent(std::max(0.5, watchdog_s_ / 4));
}

std::string RunFailures::describe(const std::vector<RankPlace>& silent) const {
  constexpr std::size_t kMostNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(silent.size(), kMostNamed); ++i) {
    text += fmt::format("{}rank {} on {} at {} ({:.1f} s)", i == 0 ? "" : ", ", silent[i].rank, hosts_[static_cast<std::size_t>(silent[i].rank)],
                        optimus::describe(silent[i]), silent[i].silent_s);
  }
  if (silent.size() > kMostNamed) text += fmt::format(" and {} more", silent.size() - kMostNamed);
  return text;
}

void RunFailures::blame_silent(const std::exception& error) {
  const std::vector<RankPlace> stuck = silent();
  if (stuck.empty()) return;
  const std::string text = "no sign of life from " + describe(stuck) + "; stuck or gone";
  Index writer = 0;
  while (std::any_of(stuck.begin(), stuck.end(), [&](const RankPlace& p) { return p.rank == writer; })) ++writer;
  if (world_.rank() == writer) {
    append_hang(stuck.front(), text);
    if (writer != 0) log_error("[train] {}", text);  // the first rank, which speaks for all otherwise, is silent
  }
  throw lost(stuck.front().rank, fmt::format("[train] {}. Noticed by: {}", text, error.what()));
}

void RunFailures::end_stuck() const {
  const std::vector<RankPlace> stuck = silent();
  const bool is_waiting = std::none_of(stuck.begin(), stuck.end(), [&](const RankPlace& p) { return p.rank == world_.rank(); });
  const RankPlace place = !stuck.empty() && is_waiting ? stuck.front() : heartbeats_.mine();
  end_stuck_at(place, optimus::describe(place));
}

void RunFailures::end_stuck_save(Index step, const std::string& what) const {
  end_stuck_at({.rank = world_.rank(), .step = step, .activity = Activity::kWrite}, fmt::format("save of step {}: {}", step, what));
}

void RunFailures::end_stuck_at(const RankPlace& place, const std::string& what) const {
  const std::string message =
      fmt::format("no progress for {} s: rank {} on {}, {}", watchdog_s_, place.rank, hosts_[static_cast<std::size_t>(place.rank)], what);
  try_for(2, [this, place, message] {
    log_error("[watchdog] {}", message);
    append_hang(place, message);
  });
  std::_Exit(static_cast<int>(ExitCode::kLostRank));
}

}  // namespace optimus
