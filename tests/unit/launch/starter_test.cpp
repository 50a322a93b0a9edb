#include "optimus/launch/starter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optimus/base/error.hpp"

namespace optimus::launch {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

StartRequest request() { return {.nodes = {{"a", 4}, {"b", 4}}, .ranks_per_node = 4, .hosts_file = "hosts", .command = {"run", "it"}}; }

TEST(Starter, IsKnownByWhatItSays) {
  EXPECT_EQ(identify_starter("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs").kind, StarterKind::kOpenMpi);
  EXPECT_EQ(identify_starter("mpiexec", "HYDRA build details:\n Version: 4.0.2").kind, StarterKind::kHydra);
  EXPECT_EQ(identify_starter("srun", "slurm 22.05.8\n").kind, StarterKind::kSlurm);
  EXPECT_EQ(identify_starter("/opt/cray/pals/1.2/bin/mpiexec", "mpiexec version 1.2.12").kind, StarterKind::kPals);
  EXPECT_THROW((void)identify_starter("ls", "ls (GNU coreutils) 9.1"), ConfigError);
}

TEST(Starter, GetsRanksAndHostsInItsOwnWords) {
  StartRequest r = request();
  r.is_root = true;
  r.agent = "/bin/agent";
  r.extra = {"--mca", "btl", "tcp,self"};
  const auto open_mpi = start_command({StarterKind::kOpenMpi, "mpirun", ""}, r);
  EXPECT_THAT(open_mpi, IsSupersetOf({"-n", "8", "--hostfile", "hosts", "--allow-run-as-root", "plm_rsh_agent", "/bin/agent", "btl"}));
  EXPECT_THAT(open_mpi, Not(testing::Contains("--oversubscribe")));
  EXPECT_EQ(open_mpi.back(), "it");
  EXPECT_EQ(hosts_text({StarterKind::kOpenMpi, "", ""}, r), "a slots=4\nb slots=4\n");

  EXPECT_THAT(start_command({StarterKind::kHydra, "mpiexec", ""}, r),
              IsSupersetOf({"-n", "8", "-f", "-ppn", "4", "-launcher", "rsh", "-launcher-exec", "/bin/agent"}));
  EXPECT_EQ(hosts_text({StarterKind::kHydra, "", ""}, r), "a:4\nb:4\n");

  EXPECT_THAT(start_command({StarterKind::kSlurm, "srun", ""}, r), IsSupersetOf({"--ntasks=8", "--nodes=2", "--nodelist=a,b", "--ntasks-per-node=4"}));
  EXPECT_THAT(start_command({StarterKind::kPals, "mpiexec", ""}, r),
              ElementsAre("mpiexec", "-n", "8", "--ppn", "4", "--hostfile", "hosts", "--mca", "btl", "tcp,self", "run", "it"));
}

TEST(Starter, GivesUpConnectionsBeforeTheWatchdogDoes) {
  StartRequest r = request();
  r.watchdog_s = 600;
  EXPECT_THAT(start_command({StarterKind::kOpenMpi, "mpirun", ""}, r), IsSupersetOf({"oob_tcp_keepalive_time", "150", "oob_tcp_keepalive_intvl", "75", "3"}));
  r.watchdog_s = 0.5;
  EXPECT_THAT(start_command({StarterKind::kOpenMpi, "mpirun", ""}, r), IsSupersetOf({"oob_tcp_keepalive_time", "1", "oob_tcp_keepalive_intvl"}))
      << "0 turns it off";
  r.watchdog_s = 1e300;
  EXPECT_THAT(start_command({StarterKind::kOpenMpi, "mpirun", ""}, r), IsSupersetOf({"oob_tcp_keepalive_time", "1000000000"})) << "an int";
  r.extra = {"--mca", "oob_tcp_keepalive_time", "20"};
  EXPECT_THAT(start_command({StarterKind::kOpenMpi, "mpirun", ""}, r), Not(testing::Contains("oob_tcp_keepalive_intvl"))) << "it takes no value twice";
}

TEST(Starter, IsToldToOversubscribeWhereSlotsAreFewer) {
  StartRequest r = request();
  r.nodes[1].slots = 2;
  EXPECT_THAT(start_command({StarterKind::kOpenMpi, "mpirun", ""}, r), IsSupersetOf({"--oversubscribe", "ppr:4:node"}));
}

TEST(StarterReport, ReadsWhoEndedBadly) {
  const auto killed = read_starter_report("x\nmpirun noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed).\n");
  EXPECT_EQ(killed.rank, 3);
  EXPECT_EQ(killed.host, "n7");
  EXPECT_EQ(killed.signal, 9);
  const auto lost = read_starter_report(
      "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[9,0],0] on node head\n  Remote daemon: [[9,0],2] on node n2\n");
  EXPECT_EQ(lost.host, "n2");
  EXPECT_TRUE(lost.is_lost_node);
  const std::string bad_end = "=   PID 4242 RUNNING AT n5\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n";
  const auto hydra = read_starter_report(bad_end + "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n");
  EXPECT_EQ(hydra.host, "n5");
  EXPECT_EQ(hydra.signal, 9);
  EXPECT_FALSE(read_starter_report(bad_end).has_culprit()) << "that is an exit code, not a signal";
  const auto slurm = read_starter_report("srun: error: n003: task 6: Killed\n");
  EXPECT_EQ(slurm.rank, 6);
  EXPECT_EQ(slurm.host, "n003");
  EXPECT_FALSE(read_starter_report("step 3/10  loss 2.1\n").has_culprit());
}

}  // namespace
}  // namespace optimus::launch
