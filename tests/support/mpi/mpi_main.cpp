// Rank 0 prints as GoogleTest does; the others print only what fails. A failure on any rank fails the program on all of them.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "mpi_world.hpp"

namespace optimus::test {
namespace {

std::unique_ptr<MpiEnvironment> environment;
std::unique_ptr<Communicator> all_ranks;

std::int64_t largest(std::int64_t value) {
  all_ranks->all_reduce({reinterpret_cast<std::byte*>(&value), DType::kI64, {1}}, Reduce::kMax);
  return value;
}

/// Keeps the ranks in step, and says on the other ranks what went wrong.
class Together : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed() && all_ranks->rank() > 0)
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", static_cast<int>(all_ranks->rank()), result.file_name() ? result.file_name() : "?", result.line_number(),
                   result.message());
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    try {
      const bool has_failed = largest(info.result()->Failed() ? 1 : 0) != 0;
      if (has_failed && all_ranks->rank() == 0 && info.result()->Passed())
        std::fprintf(stderr, "%s.%s failed on another rank\n", info.test_suite_name(), info.name());
      any_failed_ = any_failed_ || has_failed;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d after %s.%s: %s\n", static_cast<int>(all_ranks->rank()), info.test_suite_name(), info.name(), error.what());
      environment->abort(1);
    }
  }
  [[nodiscard]] bool any_failed() const { return any_failed_; }

 private:
  bool any_failed_ = false;
};

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  environment = std::make_unique<MpiEnvironment>();
  environment->set_time_limit(kTimeLimit);
  all_ranks = environment->world();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (all_ranks->rank() > 0) delete listeners.Release(listeners.default_result_printer());
  auto* together = new Together;  // GoogleTest deletes it
  listeners.Append(together);
  const int code = RUN_ALL_TESTS();
  const bool has_failed = largest(code != 0 || together->any_failed() ? 1 : 0) != 0;
  all_ranks.reset();
  environment->close();
  environment.reset();
  return has_failed ? 1 : 0;
}

}  // namespace

Communicator& world() { return *all_ranks; }
MpiEnvironment& mpi() { return *environment; }

}  // namespace optimus::test

int main(int argc, char** argv) { return optimus::test::run(argc, argv); }
