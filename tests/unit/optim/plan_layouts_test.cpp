// Bucket plans in random layouts of all axes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "optimus/optim/bucket_plan.hpp"
#include "optimus/optim/sharded_optimizer.hpp"

namespace optimus {
namespace {

constexpr Index kLayers = 3;

/// Every kind of parameter, of odd sizes where the kind allows it.
std::vector<ParamSpec> model_specs() {
  std::vector<ParamSpec> specs = {{.name = "embed", .shape = {13, 8}, .tp_dim = 0, .is_tp_uneven = true, .layer = -1}};
  for (Index layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = std::to_string(layer) + ".";
    specs.push_back({.name = prefix + "norm", .shape = {7}, .layer = layer});
    specs.push_back({.name = prefix + "q", .shape = {36, 5}, .tp_dim = 0, .tp_heads = 12, .layer = layer});
    specs.push_back({.name = prefix + "k", .shape = {2, 5}, .tp_dim = 0, .tp_heads = 1, .layer = layer});
    specs.push_back({.name = prefix + "experts.{}.down", .shape = {12, 3, 12}, .tp_dim = 2, .is_expert = true, .layer = layer});
  }
  specs.push_back({.name = "last", .shape = {7}, .layer = kLayers});
  return specs;
}

/// With several stages the embedding is on the first and, as the head, on the last.
std::vector<ParamSpec> stage_specs(Index stages, Index stage) {
  std::vector<ParamSpec> all = model_specs(), specs;
  for (const ParamSpec& spec : all)
    if (std::min(stages - 1, std::max<Index>(0, spec.layer) * stages / kLayers) == stage) specs.push_back(spec);
  if (stages > 1 && stage == stages - 1) specs.push_back(all.front());
  for (ParamSpec& spec : specs) spec.is_tied = stages > 1 && spec.name == "embed";
  return specs;
}

struct RandomLayout {
  ParallelConfig config;
  Index world = 1;
};

RandomLayout random_layout(std::mt19937& random) {
  const Index sizes[] = {1, 2, 3, 4}, dp = sizes[random() % 4];
  RandomLayout layout;
  layout.config.tp = sizes[random() % 4];
  layout.config.ep = sizes[random() % 4];
  layout.config.pp = 1 + static_cast<Index>(random() % 3);
  layout.config.order = random() % 2 == 0 ? "dp-pp-ep-tp" : "pp-dp-ep-tp";
  layout.config.bucket_elements = 1 << (random() % 12);
  layout.world = dp * layout.config.tp * layout.config.ep * layout.config.pp;
  return layout;
}

std::string str(const RandomLayout& l) {
  return "world " + std::to_string(l.world) + " tp " + std::to_string(l.config.tp) + " ep " + std::to_string(l.config.ep) + " pp " +
         std::to_string(l.config.pp) + " " + l.config.order;
}

Index global_index(const Shape& shape, const Box& box, Index i) {
  Index at = 0;
  for (int d = 0; d < shape.ndim(); ++d) {
    const Index below = box.shape.count_from(d + 1);
    at = at * shape[d] + box.begin[d] + i / below % box.shape[d];
  }
  return at;
}

TEST(PlanOfAnyLayout, GivesEveryElementOneOwner) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const RandomLayout layout = random_layout(random);
    const Mesh mesh(layout.config, layout.world);
    for (const char* sharding : {"epso", "so", "none"}) {
      std::map<std::string, std::vector<int>> owners;
      for (const ParamSpec& spec : model_specs()) owners[spec.name].resize(static_cast<std::size_t>(spec.shape.count()));
      for (Index rank = 0; rank < mesh.world(); ++rank) {
        const auto specs = stage_specs(mesh.pp(), mesh.coordinates(rank).pp);
        for (const Bucket& bucket : plan_buckets(specs, mesh, rank, sharding, layout.config.bucket_elements)) {
          for (const BucketEntry& entry : bucket.entries) {
            const ShardRange range = shard_range(bucket, entry);
            const ParamSpec& spec = specs[static_cast<std::size_t>(entry.spec)];
            for (Index i = 0; bucket.is_owner && i < range.count; ++i)
              ++owners[spec.name][static_cast<std::size_t>(global_index(spec.shape, entry.box, range.flat_begin + i))];
          }
        }
      }
      for (const auto& [name, counts] : owners)
        ASSERT_EQ(std::count(counts.begin(), counts.end(), 1), static_cast<Index>(counts.size())) << str(layout) << " " << sharding << " " << name;
    }
  }
}

/// Collectives of one group meet: same buckets, same sizes, same order. Of all TP ranks too, where the vocabulary is cut unevenly.
TEST(PlanOfAnyLayout, IsTheSameOnAllRanksOfAStage) {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    const RandomLayout layout = random_layout(random);
    const Mesh mesh(layout.config, layout.world);
    for (const char* sharding : {"epso", "so", "none"}) {
      for (Index rank = 0; rank < mesh.world(); ++rank) {
        const Coordinates at = mesh.coordinates(rank);
        const auto specs = stage_specs(mesh.pp(), at.pp);
        const auto mine = plan_buckets(specs, mesh, rank, sharding, layout.config.bucket_elements);
        const auto first = plan_buckets(specs, mesh, mesh.rank_of({.pp = at.pp, .tp = at.tp}), sharding, layout.config.bucket_elements);
        const auto other_tp = plan_buckets(specs, mesh, mesh.rank_of({.pp = at.pp}), sharding, layout.config.bucket_elements);
        ASSERT_EQ(mine.size(), first.size());
        ASSERT_EQ(mine.size(), other_tp.size()) << str(layout);
        for (std::size_t b = 0; b < mine.size(); ++b) {
          EXPECT_EQ(mine[b].elements, first[b].elements);
          EXPECT_EQ(mine[b].layers, first[b].layers);
          ASSERT_EQ(mine[b].entries.size(), other_tp[b].entries.size());
          for (std::size_t e = 0; e < mine[b].entries.size(); ++e) EXPECT_EQ(mine[b].entries[e].spec, other_tp[b].entries[e].spec);
        }
      }
    }
  }
}

/// The bucket of the norms is open from the last layer to the first: nobody waits for it.
TEST(BucketPlan, OrdersBucketsByWhenBackwardCompletesThem) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const RandomLayout layout = random_layout(random);
    const Mesh mesh(layout.config, layout.world);
    const auto specs = stage_specs(mesh.pp(), 0);
    Index before = static_cast<Index>(specs.size());
    for (const Bucket& bucket : plan_buckets(specs, mesh, 0, "epso", layout.config.bucket_elements)) {
      EXPECT_LT(bucket.entries.back().spec, before);
      before = bucket.entries.back().spec;
      std::set<Index> layers;
      for (const BucketEntry& entry : bucket.entries) layers.insert(specs[static_cast<std::size_t>(entry.spec)].layer);
      EXPECT_EQ(std::set<Index>(bucket.layers.begin(), bucket.layers.end()), layers);
      EXPECT_EQ(bucket.layers.size(), layers.size());
    }
  }
}

/// With sizes that need no padding: fp32 master and two moments of
///   epso: cut/(tp dp ep) + kv copies/(tp dp ep) + whole/(dp ep tp) + experts/(ep tp dp)
///   so:   cut/(tp dp)    + kv copies/(tp dp)    + whole/dp         + experts/(ep tp dp)
///   none: cut/tp         + kv copies/tp         + whole            + experts/(ep tp)
TEST(PlanBytes, FollowTheFormulasInEveryLayout) {
  const Index cut = 64 * 576, kv = 2 * 16 * 576, whole = 64 * 576, experts = 12 * 64 * 576, kv_heads = 2;
  const std::vector<ParamSpec> specs = {{.name = "cut", .shape = {64, 576}, .tp_dim = 0},
                                        {.name = "kv", .shape = {32, 576}, .tp_dim = 0, .tp_heads = kv_heads},
                                        {.name = "whole", .shape = {64, 576}},
                                        {.name = "experts.{}.w", .shape = {12, 64, 576}, .tp_dim = 1, .is_expert = true}};
  for (const Index tp : {1, 2, 4}) {
    for (const Index ep : {1, 2, 3, 4}) {
      for (const Index dp : {1, 2, 3}) {
        ShardedOptimizer::Options o;
        o.parallel.tp = tp;
        o.parallel.ep = ep;
        const Mesh mesh(o.parallel, dp * ep * tp);
        const Index copies = std::max<Index>(1, tp / kv_heads);
        const Index cut_here = cut / tp, kv_here = kv * copies / tp, experts_here = experts / (ep * tp);
        const std::map<std::string, Index> states = {{"epso", (cut_here + kv_here) / (dp * ep) + whole / (dp * ep * tp) + experts_here / dp},
                                                     {"so", (cut_here + kv_here + whole + experts_here) / dp},
                                                     {"none", cut_here + kv_here + whole + experts_here}};
        for (const auto& [sharding, count] : states) {
          o.parallel.optimizer_sharding = sharding;
          for (Index rank = 0; rank < mesh.world(); ++rank) {
            const auto bytes = ShardedOptimizer::plan_bytes(specs, o, mesh, rank);
            EXPECT_EQ(bytes.master, 4 * count) << sharding << " tp " << tp << " ep " << ep << " dp " << dp;
            EXPECT_EQ(bytes.moments, 8 * count);
            EXPECT_EQ(bytes.weights, 2 * (cut_here + kv_here + whole + experts_here));
            EXPECT_EQ(bytes.gradients, 4 * (cut_here + kv_here + whole + experts_here));
          }
        }
      }
    }
  }
}

TEST(BucketPlan, SoWithOneDataRankDividesNothingAndHasOneOwnerOfEachElement) {
  ParallelConfig parallel;
  parallel.tp = 2;
  parallel.ep = 2;
  const Mesh mesh(parallel, 4);
  for (Index rank = 0; rank < 4; ++rank) {
    for (const Bucket& bucket : plan_buckets(model_specs(), mesh, rank, "so", 100)) {
      EXPECT_EQ(bucket.shards, 1);
      EXPECT_EQ(bucket.copy_axis.has_value(), bucket.replicas != Axis::kDp);
    }
  }
}

}  // namespace
}  // namespace optimus
