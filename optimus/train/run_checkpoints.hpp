#pragma once
// The checkpoints of a run: where it starts from, and what it saves on the way.

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "optimus/base/timer.hpp"
#include "optimus/checkpoint/async_writer.hpp"
#include "optimus/checkpoint/store.hpp"
#include "optimus/train/faults.hpp"
#include "optimus/train/train_step.hpp"
#include "optimus/train/watchdog.hpp"

namespace optimus {

/// Who hears of saves that take long.
struct SaveWatch {
  double limit_s = 600;  ///< in which a rank's files have to grow
  /// In a thread of its own, with what has not moved for so long; does not return. Empty: nobody watches.
  std::function<void(Index step, const std::string& what)> on_stuck;
  std::function<void()> waiting;  ///< this rank waits for others whose files grow: nothing is stuck
};

/// Collective: every member function, over the world of `groups`.
class RunCheckpoints {
 public:
  /// `dump`: the run's configuration as it goes into manifests.
  RunCheckpoints(const RunConfig& config, std::string dump, Communicator& world, TrainStep& train_step, FaultInjector& faults, SaveWatch watch = {});

  /// Gives the state its start: `run.resume`, else `run.init_from`, else initial weights. Returns the position to go on from, all zero for a fresh start.
  /// Errors: CheckpointError if all there are damaged, or hold another model.
  [[nodiscard]] TrainingPosition start();

  /// Saves the full state into the older slot; with `checkpoint.async` in the background.
  void save(const TrainingPosition& position);
  /// Saves the full state and waits until it is on disk. Errors end the run here, whatever the configuration: nothing comes after that could make up for it.
  void save_and_wait(const TrainingPosition& position);
  /// Saves the weights alone, with `checkpoint.async` in the background, and removes those that the configuration does not keep.
  void save_persistent(const TrainingPosition& position);
  /// Waits for what the background is writing, and publishes it.
  void finish_writing();
  /// Lets what the background writes end as soon as it can, unpublished; for a run that ends by an error. Not collective: this rank's part.
  void give_up() noexcept { is_given_up_ = true; }
  /// Publishes what the background has finished.
  void poll();
  /// Bytes that saving in the background needs.
  [[nodiscard]] static Index buffer_bytes(const RunConfig& config, const ShardedOptimizer::Bytes& bytes);

 private:
  /// A checkpoint as rank 0 found it.
  struct Found {
    std::filesystem::path folder;
    std::string weights_dtype;
  };
  template <class Find> [[nodiscard]] Found find(Find&& find) const;
  [[nodiscard]] std::optional<TrainingPosition> resume();
  [[nodiscard]] TrainingPosition load(const Found& found);
  [[nodiscard]] bool is_hugging_face(const std::filesystem::path& folder) const;
  void load_starting_weights(const std::filesystem::path& folder);
  void check_model(const CheckpointInfo& info) const;
  [[nodiscard]] CheckpointInfo describe_state(const TrainingPosition& position, bool is_full_state) const;
  /// A writer of one kind of checkpoint, and the step of what it writes.
  struct Background {
    std::unique_ptr<Watchdog> guard;  ///< while this rank writes or publishes; the writer's thread uses it to its end
    AsyncCheckpointWriter writer;
    Index step = 0;
    std::optional<Timer> waited;  ///< while the next save waits for this one
    bool has_said_so = false;
  };
  [[nodiscard]] WriteHooks hooks_of(Background& background);
  /// The slot to write next, which holds nothing but a checkpoint. Collective.
  [[nodiscard]] std::filesystem::path next_slot();
  void name_latest(const std::filesystem::path& folder) const;
  void published(Index step, const std::filesystem::path& folder);
  void persistent_published(Index step);
  /// Removes weights-only checkpoints that the configuration lets go, after the one of `step`. One rank, any thread.
  void prune(Index step) const;
  void save_now(const TrainingPosition& position);
  template <class Action> void write(Index step, Action action);
  void finish_full();
  void finish_persistent();
  /// For a save that is due while the one before is not done: waits, and says so.
  void say_that_a_save_waits(Background& background) const;
  template <class Finish> void make_free(Background& background, Finish finish);

  const RunConfig& config_;
  std::string dump_;
  Communicator& world_;
  TrainStep& train_step_;
  FaultInjector& faults_;
  CheckpointStore store_;
  std::vector<std::filesystem::path> spoilt_;  ///< slots that a load found damaged: to be written before a good one
  SaveWatch watch_;
  std::atomic<bool> is_given_up_ = false;
  Index saved_step_ = -1;  ///< by this process
  Background full_, persistent_;
  std::filesystem::path last_slot_;  ///< the newest checkpoint of this run's own; empty before the first
};

}  // namespace optimus
