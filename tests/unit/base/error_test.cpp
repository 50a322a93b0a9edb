#include "optimus/base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optimus/base/check.hpp"

namespace optimus {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class Thrown>
int exit_code() {
  try {
    throw Thrown("[test] words");
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[test] words");
    return static_cast<int>(e.code());
  }
}

// Schedulers and scripts act on these numbers.
TEST(Error, EachKindHasItsExitCode) {
  EXPECT_EQ(exit_code<Error>(), 1);
  EXPECT_EQ(exit_code<ConfigError>(), 2);
  EXPECT_EQ(exit_code<ShapeError>(), 1);
  EXPECT_EQ(exit_code<UnsupportedError>(), 1);
  EXPECT_EQ(exit_code<DataError>(), 3);
  EXPECT_EQ(exit_code<CheckpointError>(), 4);
  EXPECT_EQ(exit_code<CommError>(), 11);
  EXPECT_EQ(exit_code<DeviceError>(), 1);
  EXPECT_EQ(exit_code<NumericError>(), 10);
  EXPECT_EQ(exit_code<FileError>(), 1);
  EXPECT_EQ(exit_code<InternalError>(), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kStoppedBySignal), 12);
  EXPECT_EQ(static_cast<int>(ExitCode::kNoSpareNode), 13);
}

TEST(Check, NamesConditionMessageAndPlace) {
  const int experts = 3;
  try {
    OPTIMUS_CHECK(experts == 4, "one expert is missing");
    FAIL() << "a broken invariant passed";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("one expert is missing"), HasSubstr("experts == 4"), HasSubstr("error_test.cpp:")));
  }
}

TEST(Check, LetsTrueConditionsPassAndEvaluatesThemOnce) {
  int count = 0;
  OPTIMUS_CHECK(++count == 1, "evaluated twice");
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace optimus
