#include "optimus/comm/mpi/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace optimus {
namespace {

TEST(MpiEnvironment, KnowsItsStartersByTheirVariables) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS"}) unsetenv(name);
  EXPECT_FALSE(MpiEnvironment::is_started_by_mpi());
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS"}) {
    setenv(name, "1", 1);
    EXPECT_TRUE(MpiEnvironment::is_started_by_mpi()) << name;
    unsetenv(name);
  }
}

TEST(MpiEnvironmentDeathTest, RefusesAStarterThatPromisedMoreRanksThanTheLibraryFinds) {
  // In a process of its own: MPI starts once.
  const auto start = [] {
    setenv("PMI_SIZE", "4", 1);
    try {
      MpiEnvironment mpi;
    } catch (const CommError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(11);
    }
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(11), "announced 4 ranks, the MPI library of this program finds 1");
}

}  // namespace
}  // namespace optimus
