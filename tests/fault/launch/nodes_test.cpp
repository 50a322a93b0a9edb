// Several nodes on one machine (scripts/drill_nodes): they die, and are cut off, while the run is on.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ostream>

#include "support.hpp"

namespace optimus::test {
namespace {

class Nodes : public Supervised {
 protected:
  void up(int count) { ASSERT_EQ(drill("up", std::to_string(count)), 0); }
  void TearDown() override {
    supervisor_.reset();
    // A supervisor that has ended leaves nothing on the nodes it can reach; the ranks of one that is cut off end themselves, and so does Open MPI's daemon there,
    // but that has minutes if it had something to send.
    wait_for([this] { return drill("processes", "| sed '/^" + cut_off_ + " .*orted /d' | { ! grep . >&2; }") == 0; }, 2 * kWatchdog_s);
    EXPECT_EQ(drill("down"), 0);
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
  std::string cut_off_ = "none";
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

struct Loss {
  const char* how;  ///< of drill_nodes
  int after;        ///< lines of metrics; -1: as soon as there are ranks
};
void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.how << " after step " << loss.after; }

/// scripts/drill_launch asks for all.
std::vector<Loss> losses() {
  if (std::getenv("OPTIMUS_ALL_DRILLS") == nullptr) return {{"cut", 10}};
  std::vector<Loss> all;
  for (const char* how : {"kill", "cut"})
    for (const int after : {-1, 0, 1, 10, 25}) all.push_back({how, after});
  return all;
}

class LostNode : public Nodes, public testing::WithParamInterface<Loss> {};

/// Of a pipeline over both nodes: the ranks that are left wait for each other too, and the only buffer node must not go to one of them.
TEST_P(LostNode, IsReplacedAndItsRanksAreGone) {
  const auto& [how, after] = GetParam();
  up(3);
  if (std::string(how) == "cut" && !has_namespaces()) {  // no cable can be pulled; the script says so, and there is nothing to test
    EXPECT_NE(drill("cut", "node2"), 0);
    return;
  }
  start(options(2, 2), {"run.steps=40", "parallel.pp=4", "model.num_hidden_layers=4", "batch.global_batch=4"});
  wait_for([this] { return !ranks().empty(); });
  if (after == 0) wait_for([this] { return err().find("model: ") != std::string::npos; });
  if (after > 0) wait_for_step(static_cast<std::size_t>(after));
  if (std::string(how) == "cut") cut_off_ = "node2";
  drill(how, "node2");
  const Timer since_loss;
  wait_for([this] { return err().find("restart 1 of at most") != std::string::npos; });
  const std::size_t before = steps_done();
  wait_for([&] { return steps_done() > before || supervisor_->poll(); });
  const double healed_s = since_loss.seconds();
  EXPECT_EQ(end(), 0) << err();
  std::printf("DRILL | %s a node | after | %d | %d | 2, 3 | %.1f | %zu |\n", how, after, exit_code_of_first_start(), healed_s, ranks().size());
  std::fflush(stdout);
  EXPECT_LT(healed_s, kWatchdog_s + 5 + 60) << "and a minute for a loaded machine";
  EXPECT_HAS(err(), "node node2 is replaced by node3");
  EXPECT_EQ(read_metrics(run_).size(), 40U);
}
INSTANTIATE_TEST_SUITE_P(LaunchDrill, LostNode, testing::ValuesIn(losses()), [](const auto& loss) {
  return loss.param.how + (loss.param.after < 0 ? std::string("_at_the_start") : "_after_step_" + std::to_string(loss.param.after));
});

}  // namespace
}  // namespace optimus::test
