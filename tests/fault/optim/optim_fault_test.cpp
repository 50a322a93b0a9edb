// One rank throws inside the optimizer while others wait for it: all end with its error.

#include <gtest/gtest.h>

#include <string>

#include "optimus/base/timer.hpp"
#include "tests/support/fault_program.hpp"

namespace optimus {
namespace {

std::string run(const std::string& fault) { return test::run_fault_program(fault, 3).output; }

/// Every rank says `error`: rank 1 as it is, the others behind its name.
void expect_everywhere(const std::string& output, const std::string& error, const std::string& own_prefix = "") {
  EXPECT_NE(output.find("<rank 0 ends: rank 1: " + error), std::string::npos) << output;
  EXPECT_NE(output.find("<rank 1 ends: " + own_prefix + error), std::string::npos) << output;
  EXPECT_NE(output.find("<rank 2 ends: rank 1: " + error), std::string::npos) << output;
}

TEST(FaultsInTheOptimizer, AreNoneWithoutAFault) { EXPECT_EQ(run("none").find("ends:"), std::string::npos); }

TEST(FaultsInTheOptimizer, OfOneRankInBackwardEndAll) {
  const Timer timer;
  expect_everywhere(run("backward"), "[optim] the gradients of layer 3 are said to be complete twice in one step");
  EXPECT_LT(timer.seconds(), 25);  // below the time limit of 30 s
}

TEST(FaultsInTheOptimizer, OfOneRankInTheUpdateEndAll) {
  const Timer timer;
  const std::string output = run("update");
  for (const char* rank : {"<rank 0 ends: rank 1: ", "<rank 1 ends: ", "<rank 2 ends: rank 1: "}) EXPECT_NE(output.find(rank), std::string::npos) << output;
  EXPECT_NE(output.find("update() must follow reduce_gradients()"), std::string::npos) << output;
  EXPECT_LT(timer.seconds(), 25);
}

TEST(FaultsInTheOptimizer, OfOneRankAtTheStartEndAll) { expect_everywhere(run("initialize"), "[test] unreadable", "rank 1: "); }

}  // namespace
}  // namespace optimus
