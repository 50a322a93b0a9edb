#pragma once
// Schedules of many sizes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "optimus/pipeline/schedule.hpp"

namespace optimus::pipeline::test {

/// Calls `check` with every schedule that there is of a name, for P up to 8, M up to 17, V up to 3.
inline void for_all_sizes(const std::string& name, const std::function<void(const Schedule&)>& check) {
  const bool has_chunks = name == "interleaved" || name == "forward";
  for (const Index P : {1, 2, 3, 4, 7, 8})
    for (Index V = 1; V <= (has_chunks ? 3 : 1); ++V)
      for (Index M = 1; M <= 17; ++M) {
        if (name == "interleaved" && M % P != 0) continue;
        SCOPED_TRACE(fmt::format("{}: P {}, V {}, M {}", name, P, V, M));
        check(build_schedule({name, P, V, M}));
        if (testing::Test::HasFatalFailure()) return;
      }
}

inline const char* const kTrainingSchedules[] = {"gpipe", "1f1b", "interleaved", "zero_bubble"};
inline const char* const kAllSchedules[] = {"gpipe", "1f1b", "interleaved", "zero_bubble", "forward"};

/// Runs `action`, which has to throw E, and returns the message.
template <class E, class F>
std::string message_of(F&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

}  // namespace optimus::pipeline::test
