#include "optimus/launch/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optimus/base/error.hpp"

namespace optimus::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Action> std::string message_of(Action action) {
  try {
    (void)action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Hostfile, ReadsSlotsInBothFormsAndLeavesCommentsOut) {
  const auto hosts = parse_hostfile("# ours\n\n  a slots=4 max_slots=8\nb:2 # old\r\nc\nfe80::1\n", "hosts");
  EXPECT_THAT(hosts, ElementsAre(Host{"a", 4}, Host{"b", 2}, Host{"c", 0}, Host{"fe80::1", 0}));
}

TEST(Hostfile, AddsTheSlotsOfAHostThatComesAgain) {
  EXPECT_THAT(parse_hostfile("a slots=1\nb slots=1\na slots=2\n", "hosts"), ElementsAre(Host{"a", 3}, Host{"b", 1}));
}

TEST(Hostfile, NamesTheLineThatIsWrong) {
  EXPECT_THAT(message_of([] { return parse_hostfile("a\nb slots=many\n", "list"); }), HasSubstr("list:2: \"slots=many\""));
  EXPECT_THAT(message_of([] { return parse_hostfile("a slots=0\n", "list"); }), HasSubstr("list:1"));
  EXPECT_THAT(message_of([] { return parse_hostfile("# nothing\n", "list"); }), HasSubstr("names no host"));
}

TEST(Nodefile, CountsTheLinesOfAHostAsItsSlots) {
  EXPECT_THAT(parse_nodefile("a\na\nb\nb\n", "f"), ElementsAre(Host{"a", 2}, Host{"b", 2}));
  EXPECT_THAT(parse_nodefile("a\nb\n", "f"), ElementsAre(Host{"a", 0}, Host{"b", 0})) << "once each says nothing about ranks";
  EXPECT_THAT(message_of([] { return parse_nodefile("\n", "f"); }), HasSubstr("names no host"));
}

TEST(SlurmList, ExpandsRangesListsAndText) {
  EXPECT_THAT(expand_host_list("n[001-003,007],m[1-2]x,login"), ElementsAre("n001", "n002", "n003", "n007", "m1x", "m2x", "login"));
  EXPECT_THAT(expand_host_list("r[1-2]n[08-10]"), ElementsAre("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"));
  EXPECT_THAT(expand_host_list("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand_host_list("a,,b"), ElementsAre("a", "b"));
  EXPECT_THAT(expand_host_list(""), ElementsAre());
}

TEST(SlurmList, RefusesWhatIsNoList) {
  for (const char* list : {"n[1-2", "n1-2]", "n[[1]]", "n[2-1]", "n[a-b]", "n[]", "n[1-]", "n[1-99999999]", "n[1-9999]m[1-9999]", "n[-3]"})
    EXPECT_THAT(message_of([&] { return expand_host_list(list); }), HasSubstr(list)) << list;
}

HostQuestions answers(std::optional<std::string> slurm, std::optional<std::string> scontrol = std::nullopt) {
  return {[slurm](const std::string& name) { return name == "SLURM_JOB_NODELIST" ? slurm : std::nullopt; },
          [scontrol](const std::string&) { return scontrol; }};
}

TEST(FindHosts, AsksSlurmItselfAndReadsItsListOtherwise) {
  std::string source;
  EXPECT_THAT(find_hosts("", answers("n[1-2]", "n1\nn2\n"), source), ElementsAre(Host{"n1", 0}, Host{"n2", 0}));
  EXPECT_THAT(find_hosts("", answers("n[1-2]"), source), ElementsAre(Host{"n1", 0}, Host{"n2", 0}));
  EXPECT_EQ(source, "SLURM_JOB_NODELIST");
}

TEST(FindHosts, IsThisMachineWithoutAnyList) {
  std::string source;
  EXPECT_THAT(find_hosts("", answers(std::nullopt), source), ElementsAre(Host{"localhost", 0}));
  EXPECT_THAT(message_of([&] { return find_hosts("/no/such/file", answers(std::nullopt), source); }), HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace optimus::launch
