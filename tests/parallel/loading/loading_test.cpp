// Who opens which file when a run starts: counted where the C library is asked for it.

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdarg>
#include <filesystem>
#include <string>
#include <vector>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/model/config.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/train/run_checkpoints.hpp"
#include "tests/support/checkpoint_testing.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace {
bool is_counting = false;
std::vector<std::string> opened;  ///< for reading, by this rank
}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  if (is_counting && (flags & (O_WRONLY | O_RDWR | O_DIRECTORY)) == 0) opened.emplace_back(path);
  static auto* const real = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  return real(path, flags, mode);
}

namespace optimus::test {
namespace {

/// One folder for all ranks, made by rank 0.
class SharedFolder {
 public:
  SharedFolder() { path_ = broadcast_text(world(), world().rank() == 0 ? own_.path().string() : "", 0); }
  ~SharedFolder() { world().barrier(); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  TemporaryFolder own_;
  std::filesystem::path path_;
};

RunConfig config_of(const std::vector<std::string>& settings) {
  return load_run_config_text(R"([model]
num_experts = 4
num_experts_per_tok = 2
num_hidden_layers = 2
hidden_size = 32
num_attention_heads = 4
intermediate_size = 24
vocab_size = 61
[data]
sequence_length = 16
[batch]
global_batch = 4
micro_batch = 1
)",
                              {.ranks = world().size(), .needs_data = false}, settings);
}

/// A run up to its first step.
struct Start {
  explicit Start(const std::vector<std::string>& settings)
      : config(config_of(settings)),
        mesh(config.parallel, world().size()),
        groups(world(), mesh, config.parallel.two_level),
        backend(make_cpu_backend(1)),
        step(config, mesh, groups, *backend),
        faults(config, mesh, world().rank()),
        checkpoints(config, "", world(), step, faults) {}
  void start() {
    world().barrier();
    opened.clear();
    is_counting = true;
    position = checkpoints.start();
    is_counting = false;
  }
  [[nodiscard]] std::vector<float> weights() {
    std::vector<float> all;
    for (const View& weight : step.optimizer().weights())
      for (Index i = 0; i < weight.count(); ++i) all.push_back(static_cast<float>(weight.as<BFloat16>()[i]));
    return all;
  }

  RunConfig config;
  Mesh mesh;
  RankGroups groups;
  std::unique_ptr<Backend> backend;
  TrainStep step;
  FaultInjector faults;
  RunCheckpoints checkpoints;
  TrainingPosition position;
};

Index count(const std::string& ending) {
  return std::count_if(opened.begin(), opened.end(), [&](const std::string& path) { return path.ends_with(ending); });
}
Index count_on_all(const std::string& ending) {
  std::int64_t sum = count(ending);
  world().all_reduce(View(reinterpret_cast<std::byte*>(&sum), DType::kI64, {1}), Reduce::kSum);
  return sum;
}

/// Files of weights and states in the checkpoint below `folder`.
Index num_files(const std::string& folder) {
  Index files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) files += entry.path().extension() == ".safetensors" ? 1 : 0;
  return files;
}

bool is_first() { return world().rank() == 0; }

/// However states were divided, each file is opened once to be verified and once to be read.
TEST(Loading, OpensEachFileOfAResumedRunOnceToVerifyAndOnceToRead) {
  for (const char* sharding : {"epso", "so", "none"}) {
    const SharedFolder folder;
    const std::vector<std::string> settings = {"run.dir=\"" + folder / "run" + "\"", std::string("parallel.optimizer_sharding=") + sharding};
    Start saved(settings);
    saved.start();
    EXPECT_EQ(count_on_all(".safetensors"), 0);
    saved.checkpoints.save_and_wait({.step = 1});
    const Index files = num_files(folder / "run");

    Start resumed(settings);
    resumed.start();
    EXPECT_EQ(resumed.position.step, 1);
    EXPECT_EQ(resumed.weights(), saved.weights());
    EXPECT_EQ(count_on_all(".safetensors"), 2 * files) << sharding;
    EXPECT_EQ(count("manifest.json") > 0, is_first()) << sharding;
    const Index verified = ceil_div(files, world().size());
    if (sharding == std::string("none") && !is_first()) {
      EXPECT_LE(count(".safetensors"), verified) << "states come from rank 0";
    }
  }
}

TEST(Loading, OneRankReadsTheWeightsThatARunStartsFrom) {
  for (const char* sharding : {"epso", "so", "none"}) {
    const SharedFolder folder;
    Start saved({"run.dir=\"" + folder / "run" + "\"", "run.seed=5", "checkpoint.async=false"});
    saved.start();
    saved.checkpoints.save_persistent({.step = 1});
    const Index files = num_files(folder / "run");

    Start started({"run.dir=\"" + folder / "other" + "\"", "run.init_from=\"" + folder / "run" + "\"", std::string("parallel.optimizer_sharding=") + sharding});
    started.start();
    EXPECT_EQ(started.weights(), saved.weights());
    EXPECT_EQ(count_on_all(".safetensors"), 2 * files) << sharding;
    EXPECT_LE(count(".safetensors"), ceil_div(files, world().size()) + (is_first() ? files : 0)) << sharding;
    EXPECT_EQ(count("manifest.json") > 0, is_first());
  }
}

TEST(Loading, OneRankOpensAHuggingFaceFolder) {
  const SharedFolder folder;
  Start expected({"run.dir=\"" + folder / "run" + "\"", "run.seed=7"});
  expected.start();
  if (is_first()) {
    const auto source = [](const ParamSpec& spec, Index entry, View out) {
      const Index count = out.count();
      initialize(spec, Box::whole(spec.shape), entry * count, 7, out);
    };
    write_hf_folder(folder / "hf", write_hf_config(expected.config.shape, "float32"), parameter_specs(expected.config.shape), DType::kF32, source);
  }
  for (const char* sharding : {"epso", "so", "none"}) {
    Start started({"run.dir=\"" + folder / "other" + "\"", "run.init_from=\"" + folder / "hf" + "\"", std::string("parallel.optimizer_sharding=") + sharding});
    started.start();
    EXPECT_EQ(started.weights(), expected.weights());
    EXPECT_EQ(count("model.safetensors"), is_first() ? 1 : 0);
    EXPECT_EQ(count("config.json") > 0, is_first());
  }
}

}  // namespace
}  // namespace optimus::test
