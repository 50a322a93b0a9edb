#include <sys/resource.h>

#include "support.hpp"

namespace optimus::test {
namespace {

/// Settings of a model whose memory is far above what the program itself takes.
const std::vector<std::string> kLarger = {"model.num_hidden_layers=4", "model.hidden_size=256", "model.intermediate_size=256", "model.num_experts=16",
                                          "data.sequence_length=256",  "batch.global_batch=4",  "batch.micro_batch=4",         "run.steps=3",
                                          "precision.weights=bf16",    "checkpoint.interval=1"};

class Memory : public Pretrain {};

TEST_F(Memory, OfARunIsWhatTheDryRunSaid) {
  const auto data = prepare_ids(fresh_folder("long"), some_ids(256 * 8 + 1, 61), 256);
  auto settings = kLarger;
  settings.push_back("data.path=" + data.string());
  const auto plan = run_optimus(args(settings, {"--dry-run", "--json"}));
  ASSERT_EQ(plan.code, 0) << plan.err;
  const auto result = run(settings, 0, "MALLOC_PERTURB_=0");  // poison touches memory that a run takes and leaves alone
  ASSERT_EQ(result.code, 0) << result.err;
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);  // the largest of the children, which is the run
  const double planned = nlohmann::json::parse(plan.out)["bytes_per_rank"]["sum"], used = 1024.0 * static_cast<double>(usage.ru_maxrss);
  EXPECT_NEAR(used, planned, 0.05 * planned);
}

}  // namespace
}  // namespace optimus::test
