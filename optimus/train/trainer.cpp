#include "optimus/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/folder_lock.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/base/log.hpp"
#include "optimus/comm/watched/watched.hpp"
#include "optimus/optim/schedule.hpp"
#include "optimus/train/debug_dumps.hpp"
#include "optimus/train/faults.hpp"
#include "optimus/train/loss_picture.hpp"
#include "optimus/train/run_checkpoints.hpp"
#include "optimus/train/run_failures.hpp"
#include "optimus/train/run_log.hpp"
#include "optimus/train/signals.hpp"
#include "optimus/train/stop_conditions.hpp"
#include "optimus/train/straggler_watch.hpp"
#include "optimus/train/training_data.hpp"
#include "optimus/train/validation.hpp"
#include "optimus/train/watchdog.hpp"

namespace optimus {
namespace {

bool contains(const std::vector<Index>& steps, Index step) { return std::find(steps.begin(), steps.end(), step) != steps.end(); }

bool is_due(Index interval, Index step) { return interval > 0 && step % interval == 0; }

}  // namespace

struct Trainer::Impl {
  RunConfig config;
  TransferWatch transfers;
  std::unique_ptr<Communicator> watched_world;
  Communicator& world;
  Mesh mesh;
  RankGroups groups;
  std::string dump;
  Heartbeats heartbeats;
  RunFailures failures;
  std::unique_ptr<Watchdog> watchdog;
  SignalWatch signals;
  StopConditions stop;
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<Validation> validation;
  std::unique_ptr<TrainStep> train_step;
  std::unique_ptr<Batch> batch;
  FaultInjector faults;
  std::optional<FolderLock> lock;  ///< of the run folder, on rank 0: two runs in it would spoil each other's files
  std::unique_ptr<RunCheckpoints> checkpoints;
  std::unique_ptr<RunLog> log;
  TrainingPosition position;
  double peak_flops, flops_per_token;
  Index last_step;
  Backend& backend;
  StragglerWatch stragglers;

  Impl(const RunConfig& c, Communicator& w, Backend& b, double peak)
      : config(c),
        watched_world(make_watched_communicator(w, transfers)),
        world(*watched_world),
        mesh(c.parallel, w.size()),
        groups(world, mesh, c.parallel.two_level),
        dump(dump_run_config(c)),
        heartbeats(world, c.run.dir, std::clamp(c.fault_tolerance.watchdog_s / 8, 0.2, 10.0)),
        failures(world, heartbeats, c.run.dir, c.fault_tolerance.watchdog_s, mesh),
        watchdog(std::make_unique<Watchdog>(step_limit_s(c.fault_tolerance.watchdog_s), [this](const std::string&) { failures.end_stuck(); })),
        signals(c.fault_tolerance.save_on_signal),
        stop(c.fault_tolerance.stop_before_walltime_s),
        faults(c, mesh, w.rank()),
        peak_flops(peak),
        flops_per_token(train_flops_per_token(c.shape, c.data.sequence_length)),
        last_step(c.run.stop_after_step > 0 ? std::min(c.run.stop_after_step, c.run.steps) : c.run.steps),
        backend(b),
        stragglers(world, mesh, c.log) {}

  void start() {
    agree(world, [&] { open(); });
    make_run_folder();
    heartbeats.start_writing();
    position = checkpoints->start();
    // Only now: a run folder that turned out to be another model's keeps its files.
    agree(world, [&] {
      if (is_first()) log = std::make_unique<RunLog>(config, dump, position.step, last_step);
    });
    if (is_first()) log_start();
  }

  [[nodiscard]] bool is_first() const { return world.rank() == 0; }

  void open() {
    sampler = open_training_data(config);
    const DatasetInfo& info = sampler->datasets().front().info();
    if (!config.data.validation.empty() && config.data.validation_interval > 0) validation = std::make_unique<Validation>(config, info);
    train_step = std::make_unique<TrainStep>(config, mesh, groups, backend, &transfers);
    batch = std::make_unique<Batch>(config.batch.global_batch / mesh.data_ranks(), config.data.sequence_length,
                                    config.data.mask_document_boundaries ? info.end_of_document : -1);
    checkpoints = std::make_unique<RunCheckpoints>(config, dump, world, *train_step, faults,
                                                   SaveWatch{.limit_s = config.fault_tolerance.watchdog_s,
                                                             .on_stuck = [this](Index step, const std::string& what) { failures.end_stuck_save(step, what); },
                                                             .waiting = [this] { watchdog->beat(""); }});
  }

  void make_run_folder() {
    agree(world, [&] {
      if (!is_first()) return;
      const std::filesystem::path folder = config.run.dir;
      make_folders(folder / "checkpoints");
      lock = FolderLock::take(folder / "lock");
      if (!lock) throw ConfigError(fmt::format("[train] {} is in use by another run; wait for its end or give another run.dir", folder.string()));
      LineFile probe(std::filesystem::path(config.run.dir) / "log.txt");  // a folder that cannot be written is found now, not at the first checkpoint
      CheckpointStore(config.run.dir).clean();
      add_log_file((std::filesystem::path(config.run.dir) / "log.txt").string());
    });
  }

  void log_start() const {
    const ParameterCounts counts = count_parameters(config.shape);
    log_info("model: {} parameters, {} active; {}; {} an epoch", counts.total, counts.active, counted(world.size(), "rank"),
             counted(sampler->samples_per_epoch(), "sample"));
    if (sampler->samples_per_epoch() < config.batch.global_batch) {
      log_warning("[data] fewer samples ({}) than global_batch ({}): a step sees some of them more than once", sampler->samples_per_epoch(),
                  config.batch.global_batch);
    }
    const Index ids = sampler->datasets().front().info().vocab_size;
    if (config.shape.vocab_size / 2 > ids)
      log_warning("[data] the model has a vocabulary of {} ids, the data use {}: is model.vocab_size meant to be so large?", config.shape.vocab_size, ids);
    if (config.optimizer.lr_min > config.optimizer.lr)
      log_warning("[optimizer] lr_min {} is above lr {}: the learning rate will rise", config.optimizer.lr_min, config.optimizer.lr);
  }

  void come_to(Index step, const Place& place) {
    watchdog->beat("");
    heartbeats.note(step, place);
    world.set_context(optimus::describe(RankPlace{.step = step, .activity = place.activity, .micro_batch = place.micro_batch}));
  }

  /// Names the ranks with NaN or Inf, in failures.jsonl and in the text that is returned. Collective.
  std::string describe_nonfinite(const StepOutcome& outcome, Index step) {
    if (outcome.has_local_problem) return failures.describe({.what = outcome.problem, .order = outcome.problem_order}, step);
    return fmt::format("step {}: the sum of the gradients over all ranks is not finite (norm {})", step, outcome.update.grad_norm);
  }

  /// After a step without an update. The weights themselves may be what was spoilt, then every later step would be skipped too: they are made anew from
  /// the fp32 values, and where those are spoilt only a checkpoint helps. Collective.
  void skip(const std::string& problem, Index step) {
    if (is_first()) log_warning("{}; the step is skipped", problem);
    ++position.nonfinite_steps;
    const auto bad = train_step->optimizer().find_nonfinite_master();
    const std::string lost = failures.describe({.what = bad ? fmt::format("{} weight {}", bad->is_nan ? "nan" : "inf", bad->name) : ""}, step);
    if (!lost.empty()) throw NumericError("[train] " + lost + "; skipping steps cannot repair it: start again from the last checkpoint");
    train_step->optimizer().publish_weights(true);
  }

  StepOutcome compute(Index step, PhaseSeconds& seconds) {
    const bool is_warmup = step <= config.optimizer.warmup_steps;
    const StepSettings settings{.lr = learning_rate(config.optimizer, step, config.run.steps),
                                .may_clip = config.optimizer.clip_during_warmup || !is_warmup,
                                .wants_to_stop = SignalWatch::received() != 0 || stop.is_time_up()};
    StepHooks hooks;
    hooks.at = [this, step](const Place& place) {
      watchdog->beat("");  // a step may be long where none of its parts is
      heartbeats.note(step, place);
      faults.at(step, place.activity);
    };
    faults.arm(step, *train_step, transfers, hooks);
    if (contains(config.debug.dump_gradients_steps, step)) hooks.after_reduce = [&] { dump_gradients(world, *train_step, config, step); };
    if (contains(config.debug.dump_logits_steps, step)) dump_logits(world, mesh, *train_step, *batch, config, step);
    return train_step->run(*batch, settings, hooks, seconds);
  }

  void read_batch() const {
    const Index rows = config.batch.global_batch / mesh.data_ranks(), first = position.next_sample + mesh.data_index(world.rank()) * rows;
    batch->read(*sampler, first, rows);
  }

  void advance(Index step) {
    position.step = step;
    position.tokens += config.batch.global_batch * config.data.sequence_length;
    position.next_sample += config.batch.global_batch;
    position.epoch = sampler->epoch(position.next_sample);
    position.adam_step = train_step->optimizer().adam_step();
  }

  StepRecord describe(const StepOutcome& outcome, Index step, Index first_sample) {
    StepRecord record{.step = step,
                      .epoch = sampler->epoch(first_sample),
                      .tokens = position.tokens,
                      .lm_loss = outcome.lm_loss,
                      .aux_loss = outcome.aux_loss,
                      .z_loss = outcome.z_loss,
                      .lr = learning_rate(config.optimizer, step, config.run.steps),
                      .weight_decay = config.optimizer.weight_decay,
                      .grad_norm = outcome.update.grad_norm,
                      .clip_coefficient = outcome.update.clip_coefficient,
                      .skipped = !outcome.update.is_finite,
                      .nonfinite_steps = position.nonfinite_steps,
                      .first_sample = first_sample};
    record.sample_ids_hash = hex64(sample_ids_hash(*sampler, first_sample, first_sample + config.batch.global_batch));
    if (!config.shape.is_moe) return record;
    const auto& counts = train_step->expert_counts();
    set_expert_load(record, counts, config.shape.num_experts);
    for (auto at = counts.begin(); config.log.tokens_per_expert && at != counts.end(); at += config.shape.num_experts)
      record.tokens_per_expert.emplace_back(at, at + config.shape.num_experts);
    return record;
  }

  void set_speed(StepRecord& record, double step_s) const {
    const auto tokens = static_cast<double>(config.batch.global_batch * config.data.sequence_length);
    record.step_s = step_s;
    record.tokens_per_s = tokens / step_s;
    record.flops_per_s = record.tokens_per_s * flops_per_token;
    record.mfu = peak_flops > 0 ? record.flops_per_s / peak_flops : 0;
  }

  void save_if_due(Index step, PhaseSeconds& seconds) const {
    Timer timer;
    checkpoints->poll();
    if (is_due(config.checkpoint.persistent_interval, step)) checkpoints->save_persistent(position);
    if (is_due(config.checkpoint.interval, step) && step < last_step) checkpoints->save(position);
    seconds[static_cast<std::size_t>(Phase::kCheckpoint)] += timer.seconds();
  }

  /// All ranks are well: the last save need not be lost. What goes wrong with it is not what ends the run.
  void finish_writing_despite(const std::string& problem) const {
    try {
      checkpoints->finish_writing();
    } catch (const FileError& error) {
      if (is_first()) log_error("after {}: {}", problem, error.what());
    }
  }

  /// For a run that ends by an error: its end waits for the thread that writes, and no step comes any more whose time could be up.
  void give_up() {
    checkpoints->give_up();
    watchdog.reset();
  }

  /// One step; true if a rank was asked to stop.
  bool step_once(Index step) {
    Timer step_timer, timer;
    PhaseSeconds seconds{};
    come_to(step, {.activity = Activity::kLoad});
    agree(world, [&] {
      faults.at(step, Activity::kLoad);
      read_batch();
      stragglers.add(Work::kData, timer.seconds());
    });
    seconds[static_cast<std::size_t>(Phase::kData)] = timer.seconds();
    come_to(step, {.activity = Activity::kForward});
    const StepOutcome outcome = compute(step, seconds);
    stragglers.add(Work::kForwardBackward, train_step->worked_s(Phase::kForwardBackward));
    stragglers.add(Work::kReduce, train_step->worked_s(Phase::kReduce));
    stragglers.add(Work::kUpdate, train_step->worked_s(Phase::kUpdate));
    if (!outcome.update.is_finite) {
      const std::string problem = describe_nonfinite(outcome, step);
      if (config.optimizer.nonfinite == "stop") {
        finish_writing_despite(problem);
        throw NumericError("[train] " + problem + "; no weight was changed");
      }
      skip(problem, step);
    }
    const Index first_sample = position.next_sample;
    advance(step);
    if (config.debug.check_replicas) check_replicas(world, mesh, *train_step);
    StepRecord record = describe(outcome, step, first_sample);
    if (validation && is_due(config.data.validation_interval, step)) {
      come_to(step, {.activity = Activity::kValidation});
      timer.restart();
      record.validation_loss = validation->loss(world, mesh, train_step->model());
      seconds[static_cast<std::size_t>(Phase::kValidation)] = timer.seconds();
    }
    come_to(step, {.activity = Activity::kSave});
    const double waited_s = transfers.waited_s();
    save_if_due(step, seconds);
    stragglers.add(Work::kCheckpoint, seconds[static_cast<std::size_t>(Phase::kCheckpoint)] - (transfers.waited_s() - waited_s));
    record.phase_s = seconds;
    set_speed(record, step_timer.seconds());
    record.stragglers = stragglers.end_step(step, record.step_s);
    if (log) log->add(record);
    return outcome.wants_to_stop;
  }

  ExitCode run() {
    if (position.step >= last_step && is_first()) log_info("nothing is left to do: the run is done up to step {} of {}", position.step, last_step);
    bool is_stopped = false;
    for (Index step = position.step + 1; step <= last_step && !is_stopped; ++step) is_stopped = step_once(step);
    come_to(position.step, {.activity = Activity::kSave});
    checkpoints->save_and_wait(position);
    come_to(position.step, {.activity = Activity::kShutdown});
    agree(world, [&] { faults.at(position.step, Activity::kShutdown); });
    if (log) log->end();
    if (!is_stopped || position.step == last_step) return ExitCode::kDone;
    if (is_first()) log_info("stopped at step {} as asked; the same command goes on from there", position.step);
    return ExitCode::kStoppedBySignal;
  }
};

Trainer::Trainer(const RunConfig& config, Communicator& world, Backend& backend, double peak_flops)
    : impl_(std::make_unique<Impl>(config, world, backend, peak_flops)) {
  try {
    impl_->start();
  } catch (const CommError& error) {
    impl_->failures.blame_silent(error);
    throw;
  }
}
Trainer::~Trainer() = default;

ExitCode Trainer::run() {
  try {
    return impl_->run();
  } catch (const std::exception& error) {
    impl_->give_up();
    if (dynamic_cast<const CommError*>(&error) != nullptr) impl_->failures.blame_silent(error);
    impl_->failures.record(error, impl_->position.step + 1);
    throw;
  }
}

}  // namespace optimus
