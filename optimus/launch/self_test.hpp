#pragma once
// Finds a machine that computes wrong: the same work on every thread, over and over, compared with what must come out.

#include <cstdint>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// What self_test_round() gives on every machine that works: its operations are all exactly defined.
inline constexpr std::uint64_t kSelfTestChecksum = 0x17fedddec78dc105;

/// One round of work: random numbers (integer products), a matrix product in float and one in double with fused multiply-add, both over numbers that no machine
/// rounds in two ways. Returns the checksum of everything that came out.
[[nodiscard]] std::uint64_t self_test_round();

struct SelfTestResult {
  Index rounds = 0, wrong_rounds = 0, threads = 0;
};

/// Rounds on `threads` threads for `seconds`, at least one each.  `expected`: for tests.
[[nodiscard]] SelfTestResult run_self_test(double seconds, Index threads, std::uint64_t expected = kSelfTestChecksum);

}  // namespace optimus::launch
