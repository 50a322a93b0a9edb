// A run that is stopped after every single step, and started again, is the run that was never stopped: in every layout, bit for bit.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/log.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/data/prepare.hpp"
#include "optimus/train/trainer.hpp"
#include "tests/invariance/reshard/run_layouts.hpp"
#include "tests/support/checkpoint_testing.hpp"
#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

constexpr const char* kSettings = R"(
[run]
steps = 20
[optimizer]
lr = 1e-2
warmup_steps = 3
[checkpoint]
interval = 0
[log]
tensorboard = false
)";

class ResumeInLayouts : public testing::Test {
 protected:
  /// 29 samples in shards of 3: with 12 a step, epochs end inside most steps and shards inside all.
  void SetUp() override {
    set_log_level(LogLevel::kWarning);
    mpi().set_time_limit(kPatience);
    folder_ = broadcast_text(world(), world().rank() == 0 ? own_.emplace().path().string() : "", 0);
    if (world().rank() == 0) std::ofstream(folder_ / "ids.jsonl") << nlohmann::json{{"tokens", some_ids(8 * 29 + 1, 61)}} << "\n";
    world().barrier();
    if (world().rank() == 0) {
      const auto self = make_self_communicator();
      (void)prepare({.out = folder_ / "data",
                     .inputs = {(folder_ / "ids.jsonl").string()},
                     .tokenizer = "none",
                     .sequence_length = 8,
                     .end_of_document = {},
                     .bin_dtype = {},
                     .shard_tokens = 24},
                    *self);
    }
    world().barrier();
  }
  void TearDown() override {
    set_log_level(LogLevel::kInfo);
    mpi().set_time_limit(kTimeLimit);
    world().barrier();
  }

  void run(Communicator& group, const RunLayout& layout, const std::string& name, std::vector<std::string> settings) {
    settings.insert(settings.end(), layout.settings.begin(), layout.settings.end());
    settings.insert(settings.end(), {"run.dir=" + (folder_ / name).string(), "data.path=" + (folder_ / "data").string()});
    const RunConfig config = load_run_config_text(std::string(kRunModel) + kSettings, {.ranks = group.size()}, settings);
    const auto backend = make_cpu_backend(1);
    Trainer trainer(config, group, *backend, 0);
    ASSERT_EQ(trainer.run(), ExitCode::kDone);
  }
  [[nodiscard]] std::string state(const std::string& name) const {
    consolidate_checkpoint(find_checkpoint(folder_ / name).folder, folder_ / "consolidated");
    return read_bytes(folder_ / "consolidated");
  }

  std::optional<TemporaryFolder> own_;
  std::filesystem::path folder_;
};

TEST_F(ResumeInLayouts, AfterEveryStepGivesTheSameBytes) {
  for (std::size_t i = 0; i < run_layouts().size(); ++i) {
    const RunLayout& layout = run_layouts()[i];
    SCOPED_TRACE(layout.name);
    const std::string weights = i % 2 == 0 ? "precision.weights=bf16" : "precision.weights=fp32";
    if (const auto group = group_of(layout)) {
      run(*group, layout, "whole", {weights, "run.resume=never"});
      run(*group, layout, "stopped", {weights, "run.resume=never", "run.stop_after_step=1"});
      for (Index step = 2; step <= 20; ++step) run(*group, layout, "stopped", {weights, "run.stop_after_step=" + std::to_string(step)});
      if (group->rank() == 0) {
        EXPECT_EQ(metrics_without_times(folder_ / "stopped"), metrics_without_times(folder_ / "whole"));
        EXPECT_EQ(read_metrics(folder_ / "stopped").size(), 20U);
        EXPECT_TRUE(state("stopped") == state("whole")) << "the states differ";
      }
    }
    world().barrier();
  }
}

}  // namespace
}  // namespace optimus::test
