// A run saved in one layout goes on in any other: the same state byte for byte, the same position, the same losses.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/log.hpp"
#include "optimus/base/random.hpp"
#include "optimus/train/run_checkpoints.hpp"
#include "optimus/train/train_step.hpp"
#include "tests/invariance/reshard/run_layouts.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus::test {
namespace {

constexpr const char* kSettings = R"(
[optimizer]
lr = 1e-3
eps = 1e-6
[checkpoint]
interval = 0
)";

/// One run in one layout, from its start (fresh, or a checkpoint) on.
class TrainingRun {
 public:
  TrainingRun(Communicator& group, const RunLayout& layout, std::vector<std::string> settings)
      : config_(load(group, layout, std::move(settings))),
        backend_(make_cpu_backend(1)),
        mesh_(config_.parallel, group.size()),
        groups_(group, mesh_, config_.parallel.two_level),
        step_(config_, mesh_, groups_, *backend_),
        faults_(config_, mesh_, group.rank()),
        checkpoints_(config_, dump_run_config(config_), group, step_, faults_),
        rows_(config_.batch.global_batch / mesh_.data_ranks()),
        batch_(rows_, config_.data.sequence_length, -1),
        position_(checkpoints_.start()) {}

  /// Losses of the next steps.
  std::vector<double> train(Index steps) {
    std::vector<double> losses;
    for (Index i = 0; i < steps; ++i) {
      batch_.set(made_up_rows(position_.next_sample + mesh_.data_index(groups_.world.rank()) * rows_, rows_));
      PhaseSeconds ignored{};
      losses.push_back(step_.run(batch_, {.lr = config_.optimizer.lr}, {}, ignored).lm_loss);
      position_.step += 1;
      position_.next_sample += config_.batch.global_batch;
      position_.tokens += config_.batch.global_batch * config_.data.sequence_length;
      position_.adam_step = step_.optimizer().adam_step();
    }
    return losses;
  }
  void save() { checkpoints_.save_and_wait(position_); }
  void save_in_background() { checkpoints_.save(position_); }
  [[nodiscard]] const TrainingPosition& position() const { return position_; }

 private:
  static RunConfig load(Communicator& group, const RunLayout& layout, std::vector<std::string> settings) {
    settings.insert(settings.end(), layout.settings.begin(), layout.settings.end());
    return load_run_config_text(std::string(kRunModel) + kSettings, {.ranks = group.size(), .needs_data = false}, settings);
  }
  /// By the number of the sample alone, as a data set gives them.
  [[nodiscard]] std::vector<std::int32_t> made_up_rows(Index first, Index rows) const {
    std::vector<std::int32_t> ids;
    for (Index sample = first; sample < first + rows; ++sample) {
      const RandomStream stream(3, "sample", std::to_string(sample));
      for (Index i = 0; i <= config_.data.sequence_length; ++i)
        ids.push_back(static_cast<std::int32_t>(stream.below(i, static_cast<std::uint64_t>(config_.shape.vocab_size))));
    }
    return ids;
  }

  RunConfig config_;
  std::unique_ptr<Backend> backend_;
  Mesh mesh_;
  RankGroups groups_;
  TrainStep step_;
  FaultInjector faults_;
  RunCheckpoints checkpoints_;
  Index rows_;
  Batch batch_;
  TrainingPosition position_;
};

class Reshard : public testing::Test {
 protected:
  Reshard() {
    set_log_level(LogLevel::kWarning);
    mpi().set_time_limit(kPatience);
    folder_ = broadcast_text(world(), world().rank() == 0 ? own_.emplace().path().string() : "", 0);
  }
  ~Reshard() override {
    world().barrier();
    set_log_level(LogLevel::kInfo);
    mpi().set_time_limit(kTimeLimit);
  }

  [[nodiscard]] std::string dir(const std::string& name) const { return (folder_ / name).string(); }
  /// The state of a run folder's newest checkpoint, on rank 0.
  [[nodiscard]] std::string state(const std::string& name) const {
    const auto out = folder_ / "consolidated";
    consolidate_checkpoint(find_checkpoint(folder_ / name).folder, out);
    return read_bytes(out);
  }
  template <class Action> void in(const RunLayout& layout, Action action) {
    const auto group = group_of(layout);
    if (group) action(*group);
    world().barrier();
  }
  static void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << "step " << i + 1 << " after the change";
  }

  static void expect_same_state(const std::string& actual, const std::string& expected) { EXPECT_TRUE(actual == expected) << "the state has changed"; }

  /// Every layout's run goes on in the layouts that are this many lines further on. `checks_losses`: compare with how it would have gone on at home.
  void move(const std::vector<std::size_t>& distances, const std::vector<std::string>& settings, bool checks_losses) {
    for (std::size_t i = 0; i < run_layouts().size(); ++i) {
      const RunLayout& home = run_layouts()[i];
      std::vector<double> expected;
      std::string saved;
      in(home, [&](Communicator& group) {
        TrainingRun run(group, home, with(settings, {"run.dir=" + dir("home"), "run.resume=never"}));
        (void)run.train(2);
        run.save();
        if (group.rank() == 0) saved = state("home");
        if (checks_losses) expected = run.train(2);
      });
      for (const std::size_t distance : distances) {
        const RunLayout& other = run_layouts()[(i + distance) % run_layouts().size()];
        SCOPED_TRACE(home.name + " to " + other.name);
        in(other, [&](Communicator& group) {
          TrainingRun run(group, other, with(settings, {"run.dir=" + dir("other"), "run.resume=" + dir("home")}));
          EXPECT_EQ(run.position().step, 2);
          EXPECT_EQ(run.position().next_sample, 24);
          EXPECT_EQ(run.position().adam_step, 2);
          run.save();
          if (group.rank() == 0) expect_same_state(state("other"), saved);
          if (!checks_losses) return;
          const auto losses = run.train(2);
          if (group.rank() == 0) expect_near(losses, expected);
        });
      }
    }
  }
  static std::vector<std::string> with(std::vector<std::string> settings, const std::vector<std::string>& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  }

  std::optional<TemporaryFolder> own_;
  std::filesystem::path folder_;
};

TEST_F(Reshard, EveryLayoutGoesOnInEveryOther) { move({0, 1, 2, 3, 4, 5, 6, 7, 8}, {"precision.weights=fp32"}, true); }

/// The pairs above show where elements lie; weights beside masters are one kind of state more.
TEST_F(Reshard, EveryLayoutBringsBf16WeightsAndMastersAlong) { move({1, 4}, {"precision.weights=bf16"}, false); }

TEST_F(Reshard, KeepsTheCountOfSamplesWhenTheGlobalBatchChanges) {
  const RunLayout &home = run_layouts()[4], &other = run_layouts()[6];
  std::string saved;
  in(home, [&](Communicator& group) {
    TrainingRun run(group, home, {"run.dir=" + dir("home"), "run.resume=never"});
    (void)run.train(3);
    run.save();
    if (group.rank() == 0) saved = state("home");
  });
  in(other, [&](Communicator& group) {
    TrainingRun run(group, other, {"run.dir=" + dir("home"), "batch.global_batch=7"});
    EXPECT_EQ(run.position().next_sample, 36);
    EXPECT_EQ(run.position().tokens, 36 * 8);
    (void)run.train(1);
    EXPECT_EQ(run.position().next_sample, 43);
    run.save();
    EXPECT_TRUE(group.rank() != 0 || state("home") != saved);
  });
  in(home, [&](Communicator& group) {
    const TrainingRun run(group, home, {"run.dir=" + dir("home")});
    EXPECT_EQ(run.position().next_sample, 43);
    EXPECT_EQ(run.position().step, 4);
  });
}

TEST_F(Reshard, ASaveThatIsDueBeforeTheOneBeforeIsDoneWaitsAndSaysSo) {
  const RunLayout& layout = run_layouts()[4];
  in(layout, [&](Communicator& group) {
    if (group.rank() == 0) add_log_file(dir("log"));
    TrainingRun run(group, layout, {"run.dir=" + dir("home"), "run.resume=never", R"(faults=[{kind="slow", rank=0, step=1, phase="publish", seconds=1}])"});
    (void)run.train(1);
    run.save_in_background();
    (void)run.train(1);
    run.save_in_background();
    if (group.rank() > 0) return;
    EXPECT_EQ(find_checkpoint(dir("home")).position.step, 1) << "complete before the next began";
    EXPECT_NE(read_bytes(dir("log")).find("the checkpoint of step 1 is still being written"), std::string::npos);
    EXPECT_NE(read_bytes(dir("log")).find("for the checkpoint of step 1 before the next"), std::string::npos);
  });
}

/// Part m of a model whose states are whole on every data rank is written by data rank m mod DP.
TEST_F(Reshard, PartsOfTheModelAreWrittenByDifferentDataRanks) {
  const RunLayout pipeline{"pp 2 dp 2", 4, {"parallel.pp=2", "parallel.optimizer_sharding=none"}};
  in(pipeline, [&](Communicator& group) {
    TrainingRun run(group, pipeline, {"run.dir=" + dir("home"), "run.resume=never"});
    run.save();
    if (group.rank() > 0) return;
    std::vector<std::string> files;
    for (const auto& file : read_contents(find_checkpoint(dir("home")).folder).files) files.push_back(file.name);
    // Ranks of dp-pp order: (dp 0, pp 0), (dp 0, pp 1), (dp 1, pp 0), (dp 1, pp 1).
    EXPECT_EQ(files, (std::vector<std::string>{"rank-00000-0.safetensors", "rank-00003-0.safetensors"}));
  });
  const RunLayout tensor{"tp 2 dp 2", 4, {"parallel.tp=2", "parallel.optimizer_sharding=none"}};
  in(tensor, [&](Communicator& group) {
    TrainingRun run(group, tensor, {"run.dir=" + dir("other"), "run.resume=never"});
    run.save();
    if (group.rank() > 0) return;
    std::map<std::string, Index> bytes;
    for (const auto& file : read_contents(find_checkpoint(dir("other")).folder).files) bytes[file.name] = file.bytes;
    // What TP cuts: ranks 0 (dp 0, tp 0) and 3 (dp 1, tp 1). What no rank shares with another part is one part more, of rank 0.
    ASSERT_EQ(bytes.size(), 2U);
    EXPECT_GT(bytes["rank-00003-0.safetensors"], bytes["rank-00000-0.safetensors"] / 3);
  });
  const RunLayout divided{"dp 4", 4, {"parallel.optimizer_sharding=epso"}};
  in(divided, [&](Communicator& group) {
    TrainingRun run(group, divided, {"run.dir=" + dir("third"), "run.resume=never", "parallel.bucket_elements=1000"});
    run.save();
    if (group.rank() > 0) return;
    EXPECT_EQ(read_contents(find_checkpoint(dir("third")).folder).files.size(), 4U) << "each rank writes its own shard";
  });
}

}  // namespace
}  // namespace optimus::test
