#include <gtest/gtest.h>

#include <new>

#include "optimus/comm/self/self.hpp"

namespace optimus {
namespace {

template <class E>
void expect_survives(const char* message) {
  const auto alone = make_self_communicator();
  try {
    agree(*alone, [&] { throw E(message); });
    FAIL() << "nothing was thrown";
  } catch (const E& error) {
    EXPECT_STREQ(error.what(), message);
  }
}

TEST(Agree, KeepsTheClassAndWordsOfEveryErrorOfTheFamily) {
  expect_survives<ConfigError>("config");
  expect_survives<ShapeError>("shape");
  expect_survives<UnsupportedError>("unsupported");
  expect_survives<DataError>("data");
  expect_survives<CheckpointError>("checkpoint");
  expect_survives<CommError>("comm");
  expect_survives<DeviceError>("device");
  expect_survives<NumericError>("numeric");
  expect_survives<FileError>("file");
  expect_survives<InternalError>("internal");
}

TEST(Agree, KeepsTheExitCodeOfAPlainError) {
  const auto alone = make_self_communicator();
  try {
    agree(*alone, [] { throw Error("stopped", ExitCode::kStoppedBySignal); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kStoppedBySignal);
  }
}

TEST(Agree, MakesErrorsOfOtherExceptions) {
  const auto alone = make_self_communicator();
  EXPECT_THROW(agree(*alone, [] { throw std::bad_alloc(); }), Error);
  EXPECT_THROW(agree(*alone, [] { throw std::runtime_error("x"); }), Error);
  EXPECT_THROW(agree(*alone, [] { throw 7; }), Error);
}

TEST(Agree, DoesNothingIfNothingFailed) {
  const auto alone = make_self_communicator();
  bool has_run = false;
  agree(*alone, [&] { has_run = true; });
  EXPECT_TRUE(has_run);
}

TEST(SelfCommunicator, SaysWhatWasNeverSent) {
  const auto alone = make_self_communicator("pair");
  alone->set_context("step 12");
  float value = 0;
  const View view(reinterpret_cast<std::byte*>(&value), DType::kF32, {1});
  try {
    alone->receive(view, 0, 5);
    FAIL();
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "[comm] receive over pair (1 member) at step 12: nothing was sent with tag 5");
  }
}

}  // namespace
}  // namespace optimus
