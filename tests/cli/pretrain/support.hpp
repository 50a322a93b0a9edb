#pragma once

#include <gtest/gtest.h>

#include "tests/support/cli_testing.hpp"

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << "no \"" << (part) << "\" in: " << (text)

namespace optimus::test {

/// A toy run in a folder of its own.
class Pretrain : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    data_ = prepare_ids(folder_, some_ids(16 * 30 + 1, 61), 16);
    config_ = write_toy_config(folder_, data_);
    run_ = folder_ / "run";
  }
  [[nodiscard]] std::vector<std::string> args(const std::vector<std::string>& settings, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> all = {"pretrain", config_.string()};
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  [[nodiscard]] ProgramResult run(const std::vector<std::string>& settings, int ranks = 0, const std::string& prefix = "") const {
    return run_optimus(args(settings), ranks, prefix);
  }

  std::filesystem::path folder_, data_, config_, run_;
};

}  // namespace optimus::test
