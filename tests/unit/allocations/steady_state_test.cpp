// After the first steps a step takes no memory: everything was laid out before.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/train/train_step.hpp"
#include "tests/support/malloc_hooks.hpp"

namespace {
std::atomic<bool> is_counting{false};
std::atomic<long> allocations{0};
template <class Function> Function* next(const char* name) { return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name)); }
}  // namespace

void count_allocation(std::size_t /*bytes*/) {
  if (is_counting) ++allocations;
}

extern "C" {
void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  count_allocation(size);
  static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return real(address, size, protection, flags, fd, offset);
}
}

namespace optimus {
namespace {

class SteadyState : public testing::TestWithParam<const char*> {};

TEST_P(SteadyState, StepsAllocateNothing) {
  const std::string setting = GetParam();
  const std::string model = setting == "model.model_type=olmo" ? "[model]" : "[model]\nnum_experts = 4\nnum_experts_per_tok = 2";
  const RunConfig config = load_run_config_text(model + R"(
num_hidden_layers = 2
hidden_size = 32
num_attention_heads = 4
intermediate_size = 24
vocab_size = 61
[data]
sequence_length = 16
[batch]
global_batch = 4
micro_batch = 2
)",
                                                {.needs_data = false}, {setting});
  const auto world = make_self_communicator();
  const Mesh mesh(config.parallel, 1);
  RankGroups groups(*world, mesh, config.parallel.two_level);
  const auto backend = make_cpu_backend(2);
  TrainStep step(config, mesh, groups, *backend);
  step.optimizer().initialize([](const ParamSpec& spec, const Box& box, Index begin, View out) { initialize(spec, box, begin, 1, out); });
  Batch batch(4, 16, -1);
  std::vector<std::int32_t> ids(4 * 17);
  PhaseSeconds seconds{};
  const auto run = [&](Index n) {
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(n) * 13) % 61);
    batch.set(ids);
    (void)step.run(batch, {.lr = 1e-3}, {}, seconds);
  };
  for (Index n = 0; n < 3; ++n) run(n);
  is_counting = true;
  for (Index n = 3; n < 6; ++n) run(n);
  is_counting = false;
  EXPECT_EQ(allocations.exchange(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SteadyState,
                         testing::Values("precision.weights=bf16", "precision.weights=fp32", "moe.implementation=reference", "moe.aux_loss_scope=global_batch",
                                         "recompute={norm=true, attention=true, moe=true}", "model.model_type=olmo", "optimizer.name=sgd"));

}  // namespace
}  // namespace optimus
