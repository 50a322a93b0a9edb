// Twenty steps through the program from Hugging Face folders, against what `transformers` and PyTorch computed from them (tests/data/reference).

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

/// Ranks and what they share; the rows of a step are one micro-batch as in the reference, or balanced as if they were.
struct Layout {
  std::string name;
  int ranks = 0;
  std::vector<std::string> settings;
};

struct Case {
  std::string model, optimizer, implementation;
  Layout layout;
};

class ReferenceRun : public testing::TestWithParam<Case> {};

TEST_P(ReferenceRun, HasTheLossesAndFinalWeightsOfPyTorch) {
  const auto& [model, optimizer, implementation, layout] = GetParam();
  const std::filesystem::path reference = std::filesystem::path(OPTIMUS_SOURCE_DIR) / "tests/data/reference" / model;
  const auto expected = nlohmann::json::parse(std::ifstream(reference / "run.json"));
  const std::string rows = std::to_string(expected["rows"].get<int>()), length = std::to_string(expected["sequence_length"].get<int>());
  const auto folder = fresh_folder();
  ASSERT_EQ(
      run_optimus({"prepare", "--out", (folder / "data").string(), "--tokenizer", "none", "--sequence-length", length, (reference / "tokens.npy").string()})
          .code,
      0);
  std::ofstream(folder / "run.toml") << "[run]\nsteps = 20\n[optimizer]\nname = \"" << optimizer << "\"\nschedule = \"constant\"\n"
                                     << (optimizer == "sgd" ? "weight_decay = 0.0\nclip_norm = 0.0\nlr = " + std::to_string(expected["sgd_lr"].get<double>())
                                                            : "lr = 1e-3")
                                     << "\n[precision]\nweights = \"fp32\"\n";
  std::vector<std::string> args = {"pretrain", (folder / "run.toml").string(),
                                   "--set",    "run.dir=" + (folder / "run").string(),
                                   "--set",    "run.init_from=" + reference.string(),
                                   "--set",    "model.hf_config=" + (reference / "config.json").string(),
                                   "--set",    "data.path=" + (folder / "data").string(),
                                   "--set",    "data.sequence_length=" + length,
                                   "--set",    "batch.global_batch=" + rows,
                                   "--set",    "batch.micro_batch=" + rows,
                                   "--set",    "moe.implementation=" + implementation,
                                   "--set",    "debug.dump_gradients_steps=[1]",
                                   "--set",    "checkpoint.interval=0"};
  for (const std::string& setting : layout.settings) args.insert(args.end(), {"--set", setting});
  const auto result = run_optimus(args, layout.ranks);
  ASSERT_EQ(result.code, 0) << result.err;

  const auto& steps = expected["runs"][optimizer]["steps"];
  const auto metrics = read_metrics(folder / "run");
  ASSERT_EQ(metrics.size(), 20U);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_NEAR(metrics[i]["lm_loss"].get<double>(), steps[i]["lm_loss"].get<double>(), 2e-5) << "step " << i + 1;
    if (!steps[i]["aux_loss"].is_null()) {
      EXPECT_NEAR(metrics[i]["aux_loss"].get<double>(), steps[i]["aux_loss"].get<double>(), 2e-5) << "step " << i + 1;
    }
    EXPECT_NEAR(metrics[i]["grad_norm"].get<double>(), steps[i]["grad_norm"].get<double>(), 1e-4 * steps[i]["grad_norm"].get<double>()) << "step " << i + 1;
  }
  std::map<std::string, std::vector<float>> gradients;
  for (auto& [name, values] : read_tensors(reference / "io.safetensors")) {
    if (name.starts_with("grad.")) gradients[name.substr(5)] = values;
  }
  ASSERT_FALSE(gradients.empty());
  expect_close(read_tensors(folder / "run" / "debug" / "gradients-step-1.safetensors"), gradients, 1e-5);
  (void)consolidated(folder / "run");
  std::map<std::string, std::vector<float>> weights;
  for (auto& [name, values] : read_tensors(folder / "run" / "consolidated.safetensors")) {
    if (name.starts_with("model.")) weights[name.substr(6)] = values;
  }
  const auto final_weights = read_tensors(reference / ("after_20_steps_" + optimizer + ".safetensors"));
  for (const auto& [name, values] : final_weights) {
    ASSERT_TRUE(weights.contains(name)) << name;
    // An element whose gradient is next to nothing still moves by a whole step under Adam.
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(weights[name][i], values[i], optimizer == "sgd" ? 1e-5 : 5e-4) << name << "[" << i << "]";
  }
}

std::vector<Case> all_cases() {
  const Layout tp_pp{.name = "tp2_pp2", .ranks = 4, .settings = {"parallel.tp=2", "parallel.pp=2"}};
  const Layout ep{.name = "ep2", .ranks = 2, .settings = {"parallel.ep=2", "batch.micro_batch=1", "moe.aux_loss_scope=global_batch"}};
  const Layout dp{.name = "dp2", .ranks = 2, .settings = {"batch.micro_batch=1"}};
  std::vector<Case> cases;
  for (const char* optimizer : {"adamw", "sgd"}) {
    for (const Layout& layout : {tp_pp, ep}) cases.push_back({"tiny-olmoe", optimizer, "fast", layout});
    for (const Layout& layout : {tp_pp, dp}) cases.push_back({"tiny-olmo", optimizer, "fast", layout});
  }
  for (const char* optimizer : {"adamw", "sgd"}) {
    for (const char* model : {"tiny-olmoe", "tiny-olmoe-norm"}) {
      for (const char* implementation : {"fast", "reference"}) cases.push_back({model, optimizer, implementation, {}});
    }
    for (const char* model : {"tiny-olmo", "tiny-olmo-clip"}) cases.push_back({model, optimizer, "fast", {}});
  }
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model + "_" + info.param.optimizer + "_" + info.param.implementation;
  if (!info.param.layout.name.empty()) name += "_" + info.param.layout.name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, ReferenceRun, testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace optimus::test
