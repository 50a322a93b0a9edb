// Several nodes on one machine (scripts/drill_nodes): they die, and are cut off, while the run is on.
#include <cstdlib>
#include <fstream>

#include "support.hpp"

namespace optimus::test {
namespace {

class Nodes : public Supervised {
 protected:
  void up(int count) { ASSERT_EQ(drill("up", std::to_string(count)), 0); }
  void TearDown() override {
    supervisor_.reset();
    drill("down");
    EXPECT_EQ(drill("processes", "| grep . >&2 && exit 1 || exit 0"), 0) << "processes are left on a node";
    Supervised::TearDown();
  }
  int drill(const std::string& action, const std::string& rest = "") const {
    return std::system((std::string(OPTIMUS_SOURCE_DIR) + "/scripts/drill_nodes " + action + " " + nodes_.string() + " " + rest).c_str());
  }
  [[nodiscard]] std::vector<std::string> options(int nodes, int ranks_per_node = 1) const {
    std::string starter_options = read_file(nodes_ / "starter_options");
    starter_options.pop_back();
    return {"--hostfile", (nodes_ / "hosts").string(), "--nodes",           std::to_string(nodes), "--ranks-per-node", std::to_string(ranks_per_node),
            "--agent",    (nodes_ / "agent").string(), "--starter-options", starter_options};
  }
  [[nodiscard]] bool has_namespaces() const { return read_file(nodes_ / "mode") == "namespaces\n"; }
  std::filesystem::path nodes_ = fresh_folder("nodes");
};

TEST_F(Nodes, ANodeThatDiesIsReplacedAndWithoutAnotherTheRunEndsWithThirteen) {
  up(3);
  start(options(2), {"run.steps=100000"});
  wait_for_step(10);
  drill("kill", "node2");
  wait_for([this] { return err().find("node node2 is replaced by node3") != std::string::npos; });
  EXPECT_HAS(err(), "node node2 is not used any more");
  const std::size_t before = steps_done();
  wait_for([&] { return steps_done() > before + 10; });
  drill("kill", "node3");
  EXPECT_EQ(end(), 13) << err();
  EXPECT_HAS(err(), "no buffer node is left: 1 of 2 nodes can be used");
}

TEST_F(Nodes, NotANumberOnANodeReplacesItAndChangesNoBit) {
  up(3);
  start(options(2), {"faults=[{kind=\"nan\", rank=1, step=20}]"});
  EXPECT_EQ(end(), 0) << err();
  EXPECT_HAS(err(), "node node2 is replaced by node3");
  expect_same_as_undisturbed();
}

/// Lines of metrics after which a node is cut off; -1: as soon as there are ranks. scripts/drill_launch asks for all.
std::vector<int> moments() { return std::getenv("OPTIMUS_ALL_DRILLS") == nullptr ? std::vector<int>{10} : std::vector<int>{-1, 0, 1, 10, 25}; }

class CutOff : public Nodes, public testing::WithParamInterface<int> {};

/// Where namespaces are not permitted no cable can be pulled; the script says so, and there is nothing to test.
TEST_P(CutOff, ANodeIsReplacedAndItsRanksEndThemselves) {
  up(3);
  if (!has_namespaces()) {
    EXPECT_NE(drill("cut", "node2"), 0);
    return;
  }
  // Of a pipeline over both nodes: the ranks that are left wait for each other too, and the only buffer node must not go to one of them.
  start(options(2, 2), {"run.steps=40", "parallel.pp=4", "model.num_hidden_layers=4", "batch.global_batch=4"});
  wait_for([this] { return !ranks().empty(); });
  if (GetParam() == 0) wait_for([this] { return err().find("model: ") != std::string::npos; });
  if (GetParam() > 0) wait_for_step(static_cast<std::size_t>(GetParam()));
  drill("cut", "node2");
  EXPECT_EQ(end(), 0) << err();
  EXPECT_HAS(err(), "node node2 is replaced by node3");
  EXPECT_EQ(read_metrics(run_).size(), 40U);
}
INSTANTIATE_TEST_SUITE_P(LaunchDrill, CutOff, testing::ValuesIn(moments()),
                         [](const auto& moment) { return moment.param < 0 ? std::string("at_the_start") : "after_step_" + std::to_string(moment.param); });

}  // namespace
}  // namespace optimus::test
