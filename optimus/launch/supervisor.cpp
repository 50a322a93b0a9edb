#include "optimus/launch/supervisor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/folder_lock.hpp"
#include "optimus/base/log.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/launch/attempt.hpp"
#include "optimus/launch/marked.hpp"
#include "optimus/launch/roll_call.hpp"
#include "optimus/launch/run_files.hpp"
#include "optimus/launch/signals.hpp"

namespace optimus::launch {
namespace {

constexpr double kCallLimit_s = 30;     // of a signal or a cleaning on a node
constexpr double kRollCallLimit_s = 5;  // the run goes on meanwhile, unwatched

std::vector<std::string> names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  return names;
}

class Supervisor {
 public:
  Supervisor(const RunFacts& facts, LaunchOptions options, SignalQueue& signals)
      : facts_(facts), options_(std::move(options)), signals_(signals), mark_(mark_of(facts.run_dir)), first_latest_(latest_checkpoint_time(facts.run_dir)) {}

  LaunchEnd run() {
    choose_nodes();
    while (true) {
      const RunEnd end = run_once();
      const Timer since_end;
      clean();
      const std::optional<LaunchEnd> done = after_stop(end);
      if (done) return *done;
      Decision decision = decide(end);
      if (decision.is_over) return {.code = decision.code};
      // What examining took is a part of the pause.
      if (const auto signal = signals_.wait(std::max(0.0, decision.delay_s - since_end.seconds()))) {
        log_info("[launch] stopped by signal {} between two starts; the same command goes on from the last checkpoint", *signal);
        return {.code = ExitCode::kStoppedBySignal};
      }
    }
  }

 private:
  [[nodiscard]] NodeNeeds needs() const {
    return {.run_dir = facts_.run_dir,
            .memory_bytes = facts_.bytes_per_rank * options_.world.ranks_per_node,
            .disk_bytes = facts_.checkpoint_bytes,
            .self_test_s = options_.self_test_s,
            .mark = mark_};
  }

  /// Nodes that cannot be used, with their problem; notes what the others call themselves.
  std::map<std::string, std::string> examine(const std::vector<Host>& hosts) {
    std::map<std::string, std::string> unfit;
    const auto healths = examine_nodes(options_.agent, names_of(hosts), needs(), options_.probe_limit_s);
    for (const NodeHealth& health : healths) {
      if (!health.problem.empty()) unfit[health.host] = health.problem;
      else own_names_[health.host] = health.report.host;
      if (health.report.killed > 0)
        log_warning("[launch] {}: {} of an earlier start, still there, killed", health.host, counted(health.report.killed, "process"));
    }
    if (std::all_of(healths.begin(), healths.end(), [](const NodeHealth& health) { return health.lacks_run_folder; }))
      throw FileError(fmt::format("[launch] no node can use the run folder, so it is none of theirs: {}; make room or choose another run.dir, then start again",
                                  healths.front().problem));
    return unfit;
  }

  void choose_nodes() {
    log_info("[launch] examining {}: memory, disk, {} s of computing", counted(options_.hosts.size(), "node"), options_.self_test_s);
    const auto unfit = examine(options_.hosts);
    for (const auto& [name, problem] : unfit) log_warning("[launch] node {} is left out: {}", name, problem);
    std::vector<Host> fit = options_.hosts;
    std::erase_if(fit, [&](const Host& host) { return unfit.contains(host.name); });
    World world = options_.world;
    if (static_cast<Index>(fit.size()) < world.nodes) world = smaller_world(fit, unfit);
    options_.world = world;
    policy_ = std::make_unique<Policy>(fit, world, options_.policy);
    log_info("[launch] {} on {}: {}; {}", counted(world.ranks(), "rank"), counted(world.nodes, "node"), fmt::join(names_of(policy_->active()), ", "),
             counted(policy_->spares().size(), "buffer node"));
  }

  /// At the start already too few nodes are fit.
  World smaller_world(const std::vector<Host>& fit, const std::map<std::string, std::string>& unfit) const {
    const World& wanted = options_.world;
    std::string refused;
    World world{.nodes = 0};
    if (options_.policy.may_shrink) world = largest_fitting_world(static_cast<Index>(fit.size()), wanted.ranks_per_node, options_.policy.problem_with, refused);
    if (world.nodes > 0) {
      log_warning("[launch] the run starts with {} ({}) instead of {}, with the same global batch", counted(world.nodes, "node"),
                  counted(world.ranks(), "rank"), wanted.nodes);
      return world;
    }
    std::string text = fmt::format("[launch] the run needs {}, {} can be used:", counted(wanted.nodes, "node"), fit.size());
    for (const auto& [name, problem] : unfit) text += fmt::format("\n  {}: {}", name, problem);
    throw Error(text + refused, ExitCode::kNoSpareNode);
  }

  [[nodiscard]] std::vector<std::string> command() const {
    std::vector<std::string> words = {"env", fmt::format("{}={}", kMark, mark_)};
    words.insert(words.end(), facts_.environment.begin(), facts_.environment.end());
    const bool has_saved = latest_checkpoint_time(facts_.run_dir) != first_latest_;
    const auto& run = has_saved ? facts_.command_to_go_on : facts_.command;
    words.insert(words.end(), run.begin(), run.end());
    const fs::path hosts_file = fs::path(facts_.run_dir) / "launch-hosts";
    const StartRequest request{.nodes = policy_->active(),
                               .ranks_per_node = policy_->world().ranks_per_node,
                               .watchdog_s = facts_.watchdog_s,
                               .agent = options_.starter_agent,
                               .hosts_file = hosts_file.string(),
                               .extra = options_.starter_options,
                               .command = words,
                               .is_root = ::geteuid() == 0};
    write_file_atomically(hosts_file, hosts_text(options_.starter, request));
    return start_command(options_.starter, request);
  }

  RunEnd run_once() {
    const auto words = command();
    log_info("[launch] {}", shell_line(words));
    Attempt attempt(words, facts_.run_dir, facts_.watchdog_s);
    first_step_ = last_step(facts_.run_dir);
    RollCall roll_call;
    while (true) {
      if (auto end = attempt.look()) return *end;
      if (const auto signal = signals_.wait(0.05)) on_signal(*signal, attempt);
      if (attempt.is_stuck()) {
        log_error("[launch] no sign of life for {:.0f} s (watchdog_s {} and some): the run is ended", patience_s(facts_.watchdog_s), facts_.watchdog_s);
        attempt.note_stuck();
        attempt.end_now();
      } else if (attempt.has_begun() && roll_call.is_due(attempt.silence_s(), clock_.seconds()) && is_nobody_left(roll_call, attempt)) {
        log_error("[launch] the ranks are gone, but {} does not end: it is ended", options_.starter.program);
        attempt.note_nobody_left();
        attempt.end_now();
      }
    }
  }

  bool is_nobody_left(RollCall& roll_call, const Attempt& attempt) const {
    const auto [ranks, unanswered] = signal_nodes(options_.agent, names_of(policy_->active()), mark_, 0, kRollCallLimit_s);  // 0 reaches whoever is there
    return roll_call.is_nobody_left(ranks, unanswered, policy_->world().nodes, attempt.silence_s(), clock_.seconds());
  }

  void on_signal(int signal, Attempt& attempt) {
    if (stop_signal_ || facts_.save_signals.empty()) {
      second_signal_ = signal;
      log_warning("[launch] signal {}: the run is ended at once{}", signal, stop_signal_ ? "" : " (no signal of fault_tolerance.save_on_signal makes it save)");
      attempt.end_now();
      return;
    }
    stop_signal_ = signal;
    // Not the one we got, if there is another: a batch system may have sent that to the ranks as well, and the second of a kind ends them at once.
    const auto other = std::find_if(facts_.save_signals.begin(), facts_.save_signals.end(), [&](int number) { return number != signal; });
    const int number = other != facts_.save_signals.end() ? *other : facts_.save_signals.front();
    const auto [reached, unanswered] = signal_nodes(options_.agent, names_of(policy_->active()), mark_, number, kCallLimit_s);
    log_info("[launch] signal {}: {} asked to save and end; a second signal ends them at once", signal, counted(reached, "process"));
    if (unanswered > 0) log_warning("[launch] no answer from {}: the processes there may not have been asked", counted(unanswered, "node"));
    if (reached == 0 && unanswered == 0) attempt.end_now();  // it has not begun
  }

  /// The end, if a signal asked for it.
  [[nodiscard]] std::optional<LaunchEnd> after_stop(const RunEnd& end) const {
    if (second_signal_) return LaunchEnd{.signal = second_signal_};
    if (!stop_signal_) return std::nullopt;
    const Diagnosis d = diagnose(end, used_nodes(), policy_->world().ranks_per_node);
    if (end.code == 0 || end.code == static_cast<int>(ExitCode::kStoppedBySignal)) {
      log_info("[launch] {}", end.code == 0 ? "the run is done" : "the run has saved and stopped as asked; the same command goes on from there");
      return LaunchEnd{.code = static_cast<ExitCode>(end.code)};
    }
    if (end.last_step <= first_step_) {
      log_info("[launch] stopped before another step was done; nothing is lost");
      return LaunchEnd{.code = ExitCode::kStoppedBySignal};
    }
    log_error("[launch] asked to stop, the run ended without saving: {}; the last checkpoint is intact", d.text);
    return LaunchEnd{.code = d.code};
  }

  [[nodiscard]] std::vector<UsedNode> used_nodes() const {
    std::vector<UsedNode> nodes;
    for (const Host& host : policy_->active()) {
      const auto known = own_names_.find(host.name);
      nodes.push_back({host.name, known != own_names_.end() ? known->second : host.name});
    }
    return nodes;
  }

  void clean() const {
    for (const std::string& line : clean_nodes(options_.agent, names_of(policy_->active()), mark_, kCallLimit_s)) log_warning("[launch] {}", line);
  }

  Decision decide(const RunEnd& end) {
    const Diagnosis d = diagnose(end, used_nodes(), policy_->world().ranks_per_node);
    const bool is_good = d.code == ExitCode::kDone || d.code == ExitCode::kStoppedBySignal;
    if (end.code != 0 && !is_good) log_error("[launch] the run failed (exit code {}): {}", end.code, d.text);
    std::map<std::string, std::string> unfit;
    if (!is_good && d.code != ExitCode::kConfig && d.code != ExitCode::kData && d.code != ExitCode::kCheckpoint) {
      std::vector<Host> all = policy_->active();
      all.insert(all.end(), policy_->spares().begin(), policy_->spares().end());
      unfit = examine(all);
    }
    const Decision decision = policy_->after(d, unfit, clock_.seconds());
    for (std::size_t i = 0; i < decision.lines.size(); ++i) {
      const bool is_last_word = decision.is_over && i + 1 == decision.lines.size() && !is_good;
      if (is_last_word) log_error("[launch] {}", decision.lines[i]);
      else log_info("[launch] {}", decision.lines[i]);
    }
    for (const auto& [from, to] : decision.replaced)
      append_event(facts_.run_dir, {.step = d.step, .rank = d.rank, .host = from, .kind = kReplacedKind, .message = fmt::format("{} takes its place", to)},
                   {from, to});
    if (!decision.is_over)
      append_event(facts_.run_dir, {.step = d.step, .rank = d.rank, .host = d.blamed.empty() ? "" : d.blamed.front(), .kind = kRestartKind, .message = d.text},
                   names_of(policy_->active()));
    return decision;
  }

  const RunFacts& facts_;
  LaunchOptions options_;
  SignalQueue& signals_;
  std::string mark_;
  fs::file_time_type first_latest_;  ///< the time of checkpoints/latest before the first start
  Timer clock_;
  std::unique_ptr<Policy> policy_;  ///< once nodes are chosen
  std::map<std::string, std::string> own_names_;
  std::optional<int> stop_signal_, second_signal_;
  Index first_step_ = 0;  ///< in metrics.jsonl before the start that runs
};

}  // namespace

LaunchEnd supervise(const RunFacts& facts, LaunchOptions options) {
  SignalQueue signals;
  const fs::path folder = facts.run_dir;
  make_folders(folder);
  const auto lock = FolderLock::take(folder / "launch.lock");
  if (!lock) throw ConfigError(fmt::format("[launch] another optimus launch works in {}; wait for its end or give another run.dir", folder.string()));
  add_log_file((folder / "launch.log").string());
  try {
    return Supervisor(facts, std::move(options), signals).run();
  } catch (const Error& error) {  // into the log as well: nobody may be looking
    log_error("{}", error.what());
    return {.code = error.code()};
  }
}

}  // namespace optimus::launch
