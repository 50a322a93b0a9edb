// optimus plan as a user runs it.

#include "tests/cli/pretrain/support.hpp"

namespace optimus::test {
namespace {

class Plan : public Pretrain {
 protected:
  [[nodiscard]] ProgramResult plan(const std::vector<std::string>& settings, const std::vector<std::string>& options, int ranks = 0) const {
    std::vector<std::string> all = {"plan", config_.string()};
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), options.begin(), options.end());
    return run_optimus(all, ranks);
  }
  [[nodiscard]] ProgramResult schedule(const std::string& name, int micro_batches, const std::vector<std::string>& options) const {
    std::vector<std::string> all = {"--schedule"};
    all.insert(all.end(), options.begin(), options.end());
    return plan({"parallel.pp=2", "parallel.pipeline_schedule=" + name, "batch.micro_batch=1", "batch.global_batch=" + std::to_string(micro_batches)}, all);
  }
};

TEST_F(Plan, WithoutScheduleSaysWhatADryRunSays) {
  for (const std::vector<std::string>& format : {std::vector<std::string>{}, std::vector<std::string>{"--json"}}) {
    std::vector<std::string> options = {"--world", "4"}, dry = {"--dry-run", "--world", "4"};
    options.insert(options.end(), format.begin(), format.end());
    dry.insert(dry.end(), format.begin(), format.end());
    const auto result = plan({"parallel.pp=2"}, options);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_FALSE(result.out.empty());
    EXPECT_EQ(result.out, run_optimus(args({"parallel.pp=2"}, dry)).out);
  }
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(Plan, DrawsTheScheduleWithBubbleLayersAndSlots) {
  const auto result = schedule("1f1b", 2, {"--world", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "1f1b: 2 stages, 1 chunk of layers on each, 2 micro-batches\n"
            "\n"
            "stage 0  F0 F1 ......B0--- ...B1---\n"
            "stage 1  ...F0 B0--- F1 B1--- ......\n"
            "\n"
            "bubble  0.3333 of the time, if every chunk takes F 1, B 1, W 1; 9 in all\n"
            "\n"
            "stage   layers          activations at most     activation slots\n"
            "0       1               2                       2\n"
            "1       1               1                       1\n");
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(Plan, EveryScheduleIsPlannedWithTheBubbleOfItsFormula) {
  const auto bubble = [&](const std::string& name, const std::vector<std::string>& options) {
    std::vector<std::string> all = {"--world", "2", "--json"};
    all.insert(all.end(), options.begin(), options.end());
    const auto result = schedule(name, 4, all);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  EXPECT_NEAR(bubble("gpipe", {})["bubble_fraction"].get<double>(), 1.0 / 5, 1e-9);
  EXPECT_NEAR(bubble("1f1b", {})["bubble_fraction"].get<double>(), 1.0 / 5, 1e-9);
  EXPECT_NEAR(bubble("interleaved", {})["bubble_fraction"].get<double>(), 1.0 / 5, 1e-9);
  const auto json = bubble("zero_bubble", {"--times", "1,1.5,0.5"});
  EXPECT_NEAR(json["bubble_fraction"].get<double>(), 2.0 / 14, 1e-9);
  EXPECT_EQ(json["stages"], 2);
  EXPECT_EQ(json["micro_batches"], 4);
  EXPECT_EQ(json["per_stage"][1]["activation_slots"], nlohmann::json::array({2}));
  EXPECT_EQ(json["per_stage"][0]["actions"].size(), 12U);
  EXPECT_EQ(json["per_stage"][0]["actions"][0]["kind"], "forward");
}

TEST_F(Plan, TheWorldIsTheRanksThatAreThereUnlessGiven) {
  const auto result = plan({"parallel.pp=2", "batch.global_batch=4", "batch.micro_batch=1"}, {"--schedule"}, 2);
  EXPECT_EQ(result.code, 0) << result.err;
  const auto first = result.out.find("4 micro-batches");
  ASSERT_NE(first, std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("4 micro-batches", first + 1), std::string::npos) << "rank 0 alone speaks";
}

TEST_F(Plan, LayoutsAndTimesThatCannotBeAreRefusedNamingTheNumbers) {
  auto result = schedule("interleaved", 3, {"--world", "2"});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "3 micro-batches on 2 stages");
  result = schedule("1f1b", 4, {"--world", "3"});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "world of 3 ranks");
  for (const char* times : {"1,2", "1,2,3,4", "1,-1,1", "1,nan,1", "0,0,0", "1;1;1", ""}) {
    result = schedule("1f1b", 4, {"--world", "2", "--times", times});
    EXPECT_EQ(result.code, 2) << times;
    EXPECT_HAS(result.err, "F,B,W");
  }
  EXPECT_EQ(plan({}, {"--times", "1,1,1"}).code, 2) << "times are of --schedule";
  EXPECT_EQ(plan({}, {"--world", "0"}).code, 2);
}

}  // namespace
}  // namespace optimus::test
