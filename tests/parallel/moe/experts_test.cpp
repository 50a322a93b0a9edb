// Experts shared by ranks, against the same experts on one rank that has all the rows.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "layer.hpp"

namespace optimus::test {
namespace {

Index ranks() { return world().size(); }

/// The number of experts of the tests: a multiple of any number of ranks they run on.
constexpr Index kExperts = 12;

struct Named {
  std::string name;
  Layer layer;
};

std::vector<Named> layers() {
  const Index P = ranks(), e = kExperts / P;
  std::vector<Named> all = {
      {"all experts busy", layer_of(7 * P, kExperts, 3, kExperts)},
      {"only the first rank's experts chosen", layer_of(7 * P, kExperts, std::min<Index>(2, e), e)},
      {"the last rank's experts idle", layer_of(7 * P, kExperts, 2, std::max<Index>(2, kExperts - e))},
      {"one choice", layer_of(5 * P, kExperts, 1, kExperts)},
      {"all experts chosen by every row", layer_of(3 * P, kExperts, kExperts, kExperts)},
      {"one expert a rank", layer_of(6 * P, P, std::min<Index>(2, P), P)},
      {"one row a rank", layer_of(P, kExperts, 2, kExperts)},
      {"rows enough for two parts", layer_of(300 * P, P, 1, P)},
      {"an odd number of rows in two parts", layer_of(257 * P, 2 * P, 2, 2 * P)},
  };
  // Rank 0's rows all go to one rank, which the others never choose.
  Layer lonely = layer_of(4 * P, kExperts, 1, kExperts);
  for (Index t = 0; t < 4 * P; ++t) lonely.index[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(t < 4 ? kExperts - 1 : 0);
  all.push_back({"one rank's rows to another alone", lonely});
  return all;
}

struct Kind {
  std::string implementation, dispatcher;
  friend std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.implementation << "_" << kind.dispatcher; }
};

class SharedExperts : public testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] static Way way(std::string backend, DType dtype, bool overlap = true) {
    return {
        .implementation = GetParam().implementation, .dispatcher = GetParam().dispatcher, .backend = std::move(backend), .dtype = dtype, .overlap = overlap};
  }
  [[nodiscard]] static Way alone(Way way) {
    way.is_shared = false;
    return way;
  }
};

TEST_P(SharedExperts, GiveWhatOneRankGivesInDouble) {
  for (const auto& [name, layer] : layers()) {
    SCOPED_TRACE(name);
    const Way shared = way("ref", DType::kF64);
    expect_same(compute(layer, shared), own_part(layer, compute(layer, alone(shared))), 1e-12);
  }
}

TEST_P(SharedExperts, GiveWhatOneRankGivesToRounding) {
  for (const auto& [name, layer] : layers()) {
    SCOPED_TRACE(name);
    const Way shared = way("cpu_one_thread", DType::kF32);
    expect_same(compute(layer, shared), own_part(layer, compute(layer, alone(shared))), 2e-6);
    // Sums of a row's outputs are rounded to bf16 before ranks add them, once for each of its ranks instead of once; the reference rounds after each of up to 12.
    const Way rounded = way("cpu_one_thread", DType::kBF16);
    expect_same(compute(layer, rounded), own_part(layer, compute(layer, alone(rounded))), 0x1p-6);
  }
}

TEST_P(SharedExperts, GiveTheSameBitsWithAndWithoutOverlapAndEveryTime) {
  for (const auto& [name, layer] : layers()) {
    SCOPED_TRACE(name);
    const DType dtype = layer.top_k == 1 ? DType::kBF16 : DType::kF32;
    const LayerResult overlapped = compute(layer, way("cpu_one_thread", dtype));
    expect_same(compute(layer, way("cpu_one_thread", dtype, false)), overlapped, 0);
    if (overlapped.num_parts == 2) expect_same(compute(layer, way("cpu_one_thread", dtype)), overlapped, 0);
  }
}

TEST_P(SharedExperts, WithoutRowsHaveGradientsOfExactlyZero) {
  const Index e = kExperts / ranks();
  const Layer layer = layer_of(8 * ranks(), kExperts, std::min<Index>(2, e), e);
  const LayerResult result = compute(layer, way("cpu_one_thread", DType::kF32));
  if (world().rank() == 0) return;
  EXPECT_EQ(result.slots, 0);
  for (const auto* gradient : {&result.dw_gate, &result.dw_up, &result.dw_down}) EXPECT_EQ(std::ranges::count(*gradient, 0.0), std::ssize(*gradient));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedExperts,
                         testing::Values(Kind{"fast", "all_gather"}, Kind{"fast", "all_to_all"}, Kind{"reference", "all_gather"},
                                         Kind{"reference", "all_to_all"}),
                         testing::PrintToStringParamName());

TEST(Dispatchers, GiveTheSameNumbers) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [name, layer] : layers()) {
      SCOPED_TRACE(name);
      expect_same(compute(layer, {.dispatcher = "all_to_all", .backend = "cpu_one_thread", .dtype = dtype}),
                  compute(layer, {.dispatcher = "all_gather", .backend = "cpu_one_thread", .dtype = dtype}), 0);
    }
  }
}

TEST(Parts, AreTwoWhereAnExpertExpectsRowsEnoughFromEach) {
  if (ranks() == 1) return;
  const auto parts = [](Index rows_a_rank) { return compute(layer_of(rows_a_rank * ranks(), ranks(), 1, ranks()), {}).num_parts; };
  EXPECT_EQ(parts(255), 1U);
  EXPECT_EQ(parts(256), 2U);
}

}  // namespace
}  // namespace optimus::test
