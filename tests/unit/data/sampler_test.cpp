#include "optimus/data/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "optimus/base/error.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/data/mixture.hpp"
#include "optimus/data/permutation.hpp"
#include "tests/unit/data/data_testing.hpp"

namespace optimus {
namespace {

using namespace testing_data;

TEST(Permutation, HitsEveryPlaceOnce) {
  for (const Index n : {1, 2, 3, 7, 64, 1000, 4097}) {
    const Permutation permutation(n, 5, "test");
    std::vector<bool> hit(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) hit[static_cast<std::size_t>(permutation(i))] = true;
    EXPECT_EQ(std::count(hit.begin(), hit.end(), true), n);
  }
}

TEST(Permutation, DependsOnSeedPurposeAndName) {
  const auto first = [](const Permutation& p) {
    std::vector<Index> places;
    for (Index i = 0; i < 20; ++i) places.push_back(p(i));
    return places;
  };
  const auto base = first(Permutation(1000, 1, "a", "x"));
  EXPECT_EQ(first(Permutation(1000, 1, "a", "x")), base);
  EXPECT_NE(first(Permutation(1000, 2, "a", "x")), base);
  EXPECT_NE(first(Permutation(1000, 1, "b", "x")), base);
  EXPECT_NE(first(Permutation(1000, 1, "a", "y")), base);
}

TEST(Permutation, WorksBeyondThirtyTwoBits) {
  constexpr Index kN = 5'000'000'000;
  const Permutation permutation(kN, 1, "test");
  std::set<Index> places;
  for (Index i = 0; i < 1000; ++i) places.insert(permutation(kN - 1 - i));
  EXPECT_EQ(places.size(), 1000U);
  EXPECT_GE(*places.begin(), 0);
  EXPECT_LT(*places.rbegin(), kN);
  EXPECT_GT(*places.rbegin(), Index{1} << 32);
}

TEST(Permutation, PutsNeighboursAnywhere) {
  // Of 6 orders of 3 things over many seeds each comes about equally often.
  std::map<std::vector<Index>, int> orders;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    const Permutation p(3, seed, "test");
    ++orders[{p(0), p(1), p(2)}];
  }
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
}

void expect_fair(const std::vector<double>& weights, double drift) {
  const Mixture mixture(weights);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<Index> had(weights.size());
  for (Index p = 0; p < 5000; ++p) {
    const Mixture::Turn turn = mixture.turn(p);
    ASSERT_EQ(turn.earlier, had[static_cast<std::size_t>(turn.source)]) << "position " << p;
    ++had[static_cast<std::size_t>(turn.source)];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double due = weights[i] / total * static_cast<double>(p + 1);
      ASSERT_LT(std::abs(static_cast<double>(had[i]) - due), 1 + drift * static_cast<double>(p + 1) + 1e-6) << "source " << i << ", position " << p;
    }
  }
}

TEST(Mixture, GivesEachSourceItsShareToWithinOneSample) {
  expect_fair({1}, 0);
  expect_fair({1, 1}, 0);
  expect_fair({0.7, 0.3}, 0);
  expect_fair({3, 2, 1}, 0);
  expect_fair({0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}, 0);
  expect_fair(std::vector<double>(17, 2.5), 0);
  constexpr double kRounding = 1.0 / Mixture::kMaxPeriod;  // of weights that are no ratio of small whole numbers
  expect_fair({std::sqrt(2.0), 1, std::acos(-1.0)}, kRounding);
  expect_fair({1, 1e-9}, kRounding);
}

TEST(Mixture, TakesTheShortestPeriod) {
  EXPECT_EQ(Mixture(std::vector<double>{0.7, 0.3}).period(), 10);
  EXPECT_EQ(Mixture(std::vector<double>{5, 5, 5}).period(), 3);
  EXPECT_EQ(Mixture(std::vector<double>{1, 1e-9}).period(), Mixture::kMaxPeriod);
}

class Samplers : public testing::Test {
 protected:
  /// A folder of `samples` samples of 2 + 1 ids that begin at `first`.
  std::string prepare_folder(const std::string& name, int samples, int first, const PrepareOptions& base = {}) {
    PrepareOptions o = base;
    nlohmann::json line;
    for (int i = 0; i <= 2 * samples; ++i) line["tokens"].push_back(first + i);
    o.out = folder_.path() / name;
    o.inputs = {folder_.write(name + ".jsonl", line.dump())};
    o.tokenizer = "none";
    o.vocab_size = o.vocab_size > 0 ? o.vocab_size : 1000;
    o.sequence_length = 2;
    run_prepare(o);
    return o.out.string();
  }
  static DataConfig config(std::vector<SourceConfig> sources) {
    DataConfig c;
    c.sources = std::move(sources);
    c.sequence_length = 2;
    return c;
  }
  TemporaryFolder folder_;
};

TEST_F(Samplers, GiveEachSampleOnceAnEpochAndReshuffle) {
  const Sampler sampler(config({{prepare_folder("a", 50, 0)}}), 3);
  EXPECT_EQ(sampler.samples_per_epoch(), 50);
  std::vector<std::vector<Index>> orders(3);
  for (Index p = 0; p < 150; ++p) {
    const SampleRef ref = sampler.locate(p);
    EXPECT_EQ(ref.epoch, p / 50);
    EXPECT_EQ(sampler.epoch(p), p / 50);
    orders[static_cast<std::size_t>(ref.epoch)].push_back(ref.sample);
  }
  for (Index i = 0; i < 50; ++i) EXPECT_EQ(orders[0][static_cast<std::size_t>(i)], i) << "the stored order first";
  EXPECT_NE(orders[1], orders[0]);
  EXPECT_NE(orders[2], orders[1]);
  for (std::vector<Index>& order : orders) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(std::unique(order.begin(), order.end()), order.end());
  }
}

TEST_F(Samplers, KeepTheStoredOrderOnRequest) {
  DataConfig c = config({{prepare_folder("a", 5, 0)}});
  c.shuffle_epochs = false;
  const Sampler sampler(c, 3);
  for (Index p = 0; p < 15; ++p) EXPECT_EQ(sampler.locate(p).sample, p % 5);
}

TEST_F(Samplers, ReshuffleBySeed) {
  const std::string path = prepare_folder("a", 50, 0);
  const auto second_epoch = [&](std::uint64_t seed) {
    const Sampler sampler(config({{path}}), seed);
    std::vector<Index> order;
    for (Index p = 50; p < 100; ++p) order.push_back(sampler.locate(p).sample);
    return order;
  };
  EXPECT_EQ(second_epoch(1), second_epoch(1));
  EXPECT_NE(second_epoch(1), second_epoch(2));
}

TEST_F(Samplers, ReadRowsAcrossTheEndOfAnEpoch) {
  const Sampler sampler(config({{prepare_folder("a", 4, 0)}}), 3);
  Ids together(3 * 10), single(3);
  sampler.read(2, 12, together);
  for (Index p = 2; p < 12; ++p) {
    sampler.datasets()[0].read_sample(sampler.locate(p).sample, single);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(together[static_cast<std::size_t>(p - 2) * 3 + i], single[i]);
  }
}

TEST_F(Samplers, MixSourcesByWeightEachWithItsOwnEpochs) {
  const Sampler sampler(config({{prepare_folder("a", 6, 0), 3}, {prepare_folder("b", 5, 500), 1}}), 3);
  EXPECT_EQ(sampler.samples_per_epoch(), 11);
  std::vector<Index> had(2);
  std::map<std::pair<Index, Index>, std::set<Index>> seen;
  for (Index p = 0; p < 400; ++p) {
    const SampleRef ref = sampler.locate(p);
    EXPECT_EQ(ref.epoch, had[static_cast<std::size_t>(ref.source)]++ / (ref.source == 0 ? 6 : 5));
    EXPECT_TRUE(seen[std::make_pair(ref.source, ref.epoch)].insert(ref.sample).second);
    EXPECT_EQ(sampler.global_sample(ref), (ref.source == 0 ? 0 : 6) + ref.sample);
    Ids ids(3);
    sampler.read(p, p + 1, ids);
    EXPECT_EQ(ids[0] >= 500, ref.source == 1);
  }
  EXPECT_EQ(had, (std::vector<Index>{300, 100}));
}

TEST_F(Samplers, FindFarPositionsAtOnce) {
  const Sampler sampler(config({{prepare_folder("a", 6, 0), 3}, {prepare_folder("b", 5, 500), 1}}), 3);
  constexpr Index kFar = 4'000'000'000'000;
  const SampleRef ref = sampler.locate(kFar);
  EXPECT_EQ(ref.epoch, (ref.source == 0 ? kFar / 4 * 3 / 6 : kFar / 4 / 5));
}

TEST_F(Samplers, HashSortedSampleNumbers) {
  const Sampler sampler(config({{prepare_folder("a", 8, 0)}}), 3);
  const std::vector<Index> sorted{2, 3, 4, 5};
  EXPECT_EQ(sample_ids_hash(sampler, 2, 6), xxh64(std::as_bytes(std::span(sorted))));
  std::vector<Index> wrapped;
  for (Index p = 6; p < 10; ++p) wrapped.push_back(sampler.locate(p).sample);
  std::sort(wrapped.begin(), wrapped.end());
  EXPECT_EQ(sample_ids_hash(sampler, 6, 10), xxh64(std::as_bytes(std::span(wrapped))));
}

TEST_F(Samplers, RefuseSourcesThatDoNotFitEachOther) {
  const std::string a = prepare_folder("a", 4, 0);
  PrepareOptions other;
  other.vocab_size = 2000;
  const std::string b = prepare_folder("b", 4, 0, other);
  expect_contains(message_of<DataError>([&] { Sampler sampler(config({{a}, {b}}), 1); }), {a, b, "vocabulary size", "1000", "2000"});
  other.vocab_size = 1000;
  other.end_of_document = "7";
  const std::string c = prepare_folder("c", 4, 0, other);
  expect_contains(message_of<DataError>([&] { Sampler sampler(config({{a}, {c}}), 1); }), {a, c, "end of document"});
  DataConfig long_sequences = config({{a}});
  long_sequences.sequence_length = 8;
  expect_contains(message_of<DataError>([&] { Sampler sampler(long_sequences, 1); }), {a, "sequence length 2", "8"});
  expect_contains(message_of<ConfigError>([&] { Sampler sampler(config({}), 1); }), {"data.path"});
  DataConfig both = config({{a}});
  both.path = a;
  expect_contains(message_of<ConfigError>([&] { Sampler sampler(both, 1); }), {"data.path", "data.sources"});
  expect_contains(message_of<ConfigError>([&] { Sampler sampler(config({{a, 0.0}}), 1); }), {a, "weight"});
}

}  // namespace
}  // namespace optimus
