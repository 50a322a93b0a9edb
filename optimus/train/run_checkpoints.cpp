#include "optimus/train/run_checkpoints.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/model/differences.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/train/failure_log.hpp"

namespace optimus {
namespace {

constexpr double kWorthALine_s = 0.5;

/// `second` need not be lost with `first`, whose error comes after it.
template <class First, class Second> void do_both(First first, Second second) {
  std::exception_ptr failure;
  try {
    first();
  } catch (const FileError&) {
    failure = std::current_exception();
  }
  second();
  if (failure) std::rethrow_exception(failure);
}

/// Folders of the candidates as rank 0 sees them: one decision for all, whatever a file system shows to others.
std::vector<std::filesystem::path> agreed_candidates(Communicator& world, const CheckpointStore& store, std::string& damaged_text) {
  std::string text;
  agree(world, [&] {
    if (world.rank() != 0) return;
    std::vector<std::string> damaged;
    for (const CheckpointInfo& info : store.candidates(damaged)) text += info.folder.string() + '\0';
    for (const std::string& reason : damaged) damaged_text += "\n  " + reason;
  });
  text = broadcast_text(world, text, 0);
  damaged_text = broadcast_text(world, damaged_text, 0);
  std::vector<std::filesystem::path> folders;
  for (std::size_t begin = 0, end = 0; (end = text.find('\0', begin)) != std::string::npos; begin = end + 1)
    folders.emplace_back(text.substr(begin, end - begin));
  return folders;
}

std::string dtype_of_weights(const RunConfig& config) { return std::string(dtype_name(parse_precision(config.precision.weights))); }

}  // namespace

RunCheckpoints::RunCheckpoints(const RunConfig& config, std::string dump, Communicator& world, TrainStep& train_step, FaultInjector& faults, SaveWatch watch)
    : config_(config),
      dump_(std::move(dump)),
      world_(world),
      train_step_(train_step),
      faults_(faults),
      store_(config.run.dir),
      watch_(std::move(watch)),
      full_{.guard = {}, .writer = AsyncCheckpointWriter(world, hooks_of(full_))},
      persistent_{.guard = {}, .writer = AsyncCheckpointWriter(world, hooks_of(persistent_))} {}

/// The guard lives from the first call in the thread to the last: nobody else would notice a file system that hangs while training goes on.
WriteHooks RunCheckpoints::hooks_of(Background& background) {
  const auto moves = [this, &background](const char* what) {
    if (!watch_.on_stuck) return;
    if (!background.guard)
      background.guard = std::make_unique<Watchdog>(watch_.limit_s, [this, &background](const std::string& stuck) { watch_.on_stuck(background.step, stuck); });
    background.guard->beat(what);
  };
  return {.wrote =
              [this, &background, moves](Index bytes, Index of_bytes) {
                moves("write of its part of the checkpoint");
                if (is_given_up_) throw FileError("[checkpoint] given up: the run ends by an error");
                faults_.during_checkpoint(background.step, bytes, of_bytes);
              },
          .publishing =
              [this, &background, moves] {
                moves("publish of the checkpoint");
                faults_.at(background.step, Activity::kPublish);
              },
          .ended = [&background] { background.guard.reset(); },
          .waiting =
              [this, &background] {
                if (watch_.waiting) watch_.waiting();
                say_that_a_save_waits(background);
              }};
}

Index RunCheckpoints::buffer_bytes(const RunConfig& config, const ShardedOptimizer::Bytes& bytes) {
  if (!config.checkpoint.async) return 0;
  const auto is_ever_due = [](Index interval, Index last) { return interval > 0 && interval <= last; };
  // Of the weights the own shard is copied; with fp32 weights the master is a second copy of it.
  const Index shard = config.precision.weights == "fp32" ? bytes.weights : bytes.master / 2;
  const Index master = config.precision.weights == "fp32" ? bytes.weights : bytes.master;
  const bool copies_all = is_ever_due(config.checkpoint.interval, config.run.steps - 1);
  const bool copies_weights = is_ever_due(config.checkpoint.persistent_interval, config.run.steps);
  return (copies_all ? shard + master + bytes.moments : 0) + (copies_weights ? shard : 0);
}

void RunCheckpoints::check_model(const CheckpointInfo& info) const {
  const ModelConfig stored = parse_hf_config(info.hf_config, info.folder.string());
  if (stored == config_.shape) return;
  throw CheckpointError(fmt::format("[checkpoint] {} holds another model than [model] describes ({}); choose another run.dir, or run.resume = \"never\"",
                                    info.folder.string(), model_differences(stored, config_.shape)));
}

/// What `find` says on rank 0, once its model has been checked; the others open nothing. Collective.
template <class Find> RunCheckpoints::Found RunCheckpoints::find(Find&& find) const {
  CheckpointInfo info;
  agree(world_, [&] {
    if (world_.rank() == 0) check_model(info = find());
  });
  return {.folder = broadcast_text(world_, info.folder.string(), 0), .weights_dtype = broadcast_text(world_, info.weights_dtype, 0)};
}

TrainingPosition RunCheckpoints::load(const Found& found) {
  ShardedOptimizer& optimizer = train_step_.optimizer();
  std::vector<Chunk> chunks = optimizer.owned_state_chunks();
  const bool is_same_type = found.weights_dtype == dtype_of_weights(config_);
  // Weights of another type are rounded anew from the masters.
  if (!is_same_type) std::erase_if(chunks, [](const Chunk& chunk) { return chunk.name.starts_with("model."); });
  const CheckpointInfo info = read_checkpoint(world_, found.folder, chunks);
  optimizer.share_states();
  optimizer.set_adam_step(info.position.adam_step);
  optimizer.publish_weights(!is_same_type);
  if (world_.rank() == 0) log_info("resumed from {} at step {}", found.folder.string(), info.position.step);
  return info.position;
}

std::optional<TrainingPosition> RunCheckpoints::resume() {
  if (config_.run.resume == "never") {
    agree(world_, [&] {
      if (world_.rank() == 0 && store_.set_slots_aside())
        log_warning("[checkpoint] the checkpoints of the run before are now in {}/checkpoints/replaced", config_.run.dir);
    });
    return std::nullopt;
  }
  if (config_.run.resume != "auto") {
    return load(find([&] {
      CheckpointInfo info = find_checkpoint(config_.run.resume);
      if (!info.is_full_state)
        throw CheckpointError(fmt::format("[checkpoint] {} has weights only and cannot be resumed; start from it with run.init_from", info.folder.string()));
      return info;
    }));
  }
  std::string damaged;
  for (const auto& folder : agreed_candidates(world_, store_, damaged)) {
    const Found found = find([&] { return inspect_checkpoint(folder); });
    if (!damaged.empty() && world_.rank() == 0)
      log_warning("[checkpoint] some of {} cannot be used, going on from {}:{}", config_.run.dir, folder.string(), damaged);
    try {
      return load(found);
    } catch (const CheckpointError& error) {  // the same on all ranks
      spoilt_.push_back(folder);
      damaged += fmt::format("\n  {}", error.what());
    }
  }
  if (!damaged.empty())
    throw CheckpointError(fmt::format(
        "[checkpoint] every checkpoint in {} is damaged; set run.resume = \"never\" to start anew, from weights (checkpoints/persistent) with run.init_from:{}",
        config_.run.dir, damaged));
  return std::nullopt;
}

bool RunCheckpoints::is_hugging_face(const std::filesystem::path& folder) const {
  bool has_config = false;
  agree(world_, [&] {
    if (world_.rank() != 0) return;
    has_config = std::filesystem::exists(folder / "config.json");
    // Shapes are checked by name; what no shape shows (angles, clipping, K, …) may differ on purpose, but not unsaid.
    if (has_config && read_hf_config(folder / "config.json") != config_.shape)
      log_warning("[model] {} describes another model than [model] does; its weights are used as they are", (folder / "config.json").string());
  });
  return broadcast_text(world_, has_config ? "yes" : "no", 0) == "yes";
}

void RunCheckpoints::load_starting_weights(const std::filesystem::path& folder) {
  ShardedOptimizer& optimizer = train_step_.optimizer();
  const std::vector<ParamSpec> specs = parameter_specs(config_.shape);
  if (is_hugging_face(folder)) {
    std::unique_ptr<HfWeights> weights;
    optimizer.initialize_from_reader([&](const ParamSpec& spec, const Box& box, Index flat_begin, View out) {
      if (!weights) weights = std::make_unique<HfWeights>(folder, specs, config_.shape.tie_word_embeddings);  // opened where something is read
      weights->read(spec, box, flat_begin, out);
    });
  } else {
    const Found found = find([&] { return find_checkpoint(folder); });
    optimizer.initialize_from_reader(open_checkpoint_weights(world_, found.folder, specs));
  }
  if (world_.rank() == 0) log_info("starting weights from {}", folder.string());
}

TrainingPosition RunCheckpoints::start() {
  if (const auto position = resume()) return *position;
  if (!config_.run.init_from.empty()) {
    load_starting_weights(config_.run.init_from);
  } else {
    const auto seed = static_cast<std::uint64_t>(config_.run.seed);
    train_step_.optimizer().initialize(
        [seed](const ParamSpec& spec, const Box& box, Index flat_begin, View out) { optimus::initialize(spec, box, flat_begin, seed, out); });
  }
  return {};
}

CheckpointInfo RunCheckpoints::describe_state(const TrainingPosition& position, bool is_full_state) const {
  CheckpointInfo info;
  info.is_full_state = is_full_state;
  info.position = position;
  info.hf_config = write_hf_config(config_.shape, config_.precision.weights == "bf16" ? "bfloat16" : "float32");
  info.run_config = dump_;
  const Mesh mesh(config_.parallel, world_.size());
  info.layout = fmt::format("{}: dp {}, pp {}, ep {}, tp {}, order {}, optimizer states: {}", counted(mesh.world(), "rank"), mesh.dp(), mesh.pp(), mesh.ep(),
                            mesh.tp(), config_.parallel.order, config_.parallel.optimizer_sharding);
  info.weights_dtype = dtype_of_weights(config_);
  return info;
}

/// The slot for the next full state. The disk is asked once: of a large world's checkpoint, looking at each file takes longer than a step.
std::filesystem::path RunCheckpoints::next_slot() {
  std::filesystem::path slot;
  agree(world_, [&] {
    if (world_.rank() != 0) return;
    slot = last_slot_.empty() ? store_.next_slot(spoilt_) : CheckpointStore::other_slot(last_slot_);
    if (const auto aside = store_.make_replaceable(slot))
      log_warning("[checkpoint] {} holds other things than a checkpoint; it is now {}", slot.string(), aside->string());
  });
  return broadcast_text(world_, slot.string(), 0);
}

void RunCheckpoints::name_latest(const std::filesystem::path& folder) const {
  try {
    store_.publish_latest(folder);
  } catch (const FileError& error) {  // for people and scripts only: a run looks for its checkpoints itself
    log_warning("[checkpoint] {} is complete, but checkpoints/latest does not name it: {}", folder.string(), error.what());
  }
}

void RunCheckpoints::published(Index step, const std::filesystem::path& folder) {
  last_slot_ = folder;
  saved_step_ = step;
  agree(world_, [&] { faults_.after_checkpoint(step, folder); });
  if (world_.rank() == 0) log_info("saved step {} in {}", step, folder.string());
}

void RunCheckpoints::persistent_published(Index step) {
  if (world_.rank() == 0) log_info("saved the weights of step {} in {}", step, store_.persistent(step).string());
}

void RunCheckpoints::prune(Index step) const {
  const KeepPolicy keep{.last = config_.checkpoint.keep_last, .every = config_.checkpoint.keep_every};
  std::vector<std::string> kept_back;
  for (const Index old : store_.prune_persistent(step, keep, kept_back)) log_info("removed the weights of step {}", old);
  for (const std::string& reason : kept_back) log_warning("an old checkpoint was not removed: {}", reason);
}

/// Runs `action`; what cannot be written is a warning if the configuration says so. Errors are the same on all ranks.
template <class Action> void RunCheckpoints::write(Index step, Action action) {
  try {
    action();
  } catch (const FileError& error) {
    if (!config_.checkpoint.keep_going_on_write_error) throw;
    if (world_.rank() != 0) return;
    log_warning("checkpoint of step {} was not written, the run goes on: {}", step, error.what());
    try_append_failure(config_.run.dir, {.step = step, .rank = 0, .host = host_name(), .kind = "write", .message = error.what()});
  }
}

void RunCheckpoints::finish_full() {
  if (const auto folder = full_.writer.finish()) published(full_.step, *folder);
}

void RunCheckpoints::finish_persistent() {
  if (persistent_.writer.finish()) persistent_published(persistent_.step);
}

/// Waits of less than kWorthALine_s are what a fast run with frequent saves consists of.
void RunCheckpoints::say_that_a_save_waits(Background& background) const {
  if (world_.rank() != 0 || !background.waited || background.has_said_so || background.waited->seconds() < kWorthALine_s) return;
  log_warning("[checkpoint] the checkpoint of step {} is still being written; the next one waits for it", background.step);
  background.has_said_so = true;
}

template <class Finish> void RunCheckpoints::make_free(Background& background, Finish finish) {
  if (!background.writer.is_busy()) return;
  background.waited.emplace();
  background.has_said_so = false;
  write(background.step, finish);
  if (world_.rank() == 0 && background.waited->seconds() >= kWorthALine_s)
    log_warning("[checkpoint] waited {:.1f} s for the checkpoint of step {} before the next: they take longer to write than the interval between them",
                background.waited->seconds(), background.step);
  background.waited.reset();
}

void RunCheckpoints::finish_writing() {
  do_both([&] { write(persistent_.step, [&] { finish_persistent(); }); }, [&] { write(full_.step, [&] { finish_full(); }); });
}

void RunCheckpoints::save(const TrainingPosition& position) {
  if (!config_.checkpoint.async) return write(position.step, [&] { save_and_wait(position); });
  make_free(full_, [&] { finish_full(); });
  write(position.step, [&] {
    agree(world_, [&] { faults_.before_checkpoint(position.step); });
    full_.step = position.step;
    const std::filesystem::path slot = next_slot();
    full_.writer.start(slot, describe_state(position, true), train_step_.optimizer().owned_state_chunks(), [this, slot] { name_latest(slot); });
  });
}

void RunCheckpoints::poll() {
  write(full_.step, [&] {
    if (const auto folder = full_.writer.poll()) published(full_.step, *folder);
  });
  write(persistent_.step, [&] {
    if (persistent_.writer.poll()) persistent_published(persistent_.step);
  });
}

void RunCheckpoints::save_and_wait(const TrainingPosition& position) {
  do_both([&] { finish_writing(); }, [&] { save_now(position); });
}

void RunCheckpoints::save_now(const TrainingPosition& position) {
  if (saved_step_ == position.step) return;
  agree(world_, [&] { faults_.before_checkpoint(position.step); });
  const std::filesystem::path slot = next_slot();
  full_.step = position.step;
  write_checkpoint(world_, slot, describe_state(position, true), train_step_.optimizer().owned_state_chunks(), kCheckpointFileBytes, hooks_of(full_));
  agree(world_, [&] {
    if (world_.rank() == 0) name_latest(slot);
  });
  published(position.step, slot);
}

void RunCheckpoints::save_persistent(const TrainingPosition& position) {
  make_free(persistent_, [&] { finish_persistent(); });
  write(position.step, [&] {
    agree(world_, [&] { faults_.before_checkpoint(position.step); });
    persistent_.step = position.step;
    const std::filesystem::path folder = store_.persistent(position.step);
    const std::vector<Chunk> chunks = train_step_.optimizer().owned_model_chunks();
    if (config_.checkpoint.async)
      return persistent_.writer.start(folder, describe_state(position, false), chunks, [this, step = position.step] { prune(step); });
    write_checkpoint(world_, folder, describe_state(position, false), chunks, kCheckpointFileBytes, hooks_of(persistent_));
    persistent_published(position.step);
    if (world_.rank() == 0) prune(position.step);
  });
}

}  // namespace optimus
