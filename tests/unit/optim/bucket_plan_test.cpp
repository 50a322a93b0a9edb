#include "optimus/optim/bucket_plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "optimus/optim/sharded_optimizer.hpp"

namespace optimus {
namespace {

/// An embedding, an expert stack, a norm smaller than most worlds, a prime-sized matrix.
std::vector<ParamSpec> some_specs() {
  return {{.name = "embed", .shape = {13, 8}, .tp_dim = 0},
          {.name = "norm", .shape = {3}, .init = Init::kOnes},
          {.name = "experts.{}.up", .shape = {4, 5, 7}, .is_expert = true},
          {.name = "head", .shape = {17, 19}}};
}

Mesh mesh_of(Index world, Index ep) {
  ParallelConfig parallel;
  parallel.ep = ep;
  return Mesh(parallel, world);
}

TEST(BucketPlan, PutsTheLastParametersIntoTheFirstBucket) {
  const auto buckets = plan_buckets(some_specs(), Mesh(), 0, "epso", 1);
  ASSERT_EQ(buckets.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(buckets[i].entries.at(0).spec, 3 - static_cast<Index>(i));
}

TEST(BucketPlan, ClosesABucketWhenItIsFullAndNeverCutsAParameter) {
  const auto buckets = plan_buckets(some_specs(), Mesh(), 0, "epso", 330);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].entries.size(), 1U) << "the head alone fills one";
  EXPECT_EQ(buckets[1].entries.at(0).spec, 2) << "experts have replicas of their own";
  EXPECT_EQ(buckets[2].entries.size(), 2U);
}

TEST(BucketPlan, MakesEqualAlignedShards) {
  for (const Index world : {1, 2, 3, 5, 12}) {
    for (const Bucket& bucket : plan_buckets(some_specs(), mesh_of(world, 1), 0, "epso", 1 << 20)) {
      EXPECT_EQ(bucket.shards, world);
      EXPECT_EQ(bucket.elements % world, 0);
      EXPECT_EQ(bucket.shard_elements() % kBucketAlignment, 0);
      for (const BucketEntry& entry : bucket.entries) EXPECT_EQ(entry.offset % kBucketAlignment, 0);
    }
  }
}

TEST(BucketPlan, DividesStatesOverTheReplicaGroup) {
  const Mesh mesh = mesh_of(6, 2);  // dp 3, ep 2; rank 5 is dp 2, ep 1
  const auto epso = plan_buckets(some_specs(), mesh, 5, "epso", 1);
  EXPECT_EQ(epso[0].shards, 6);
  EXPECT_EQ(epso[0].shard, 5);
  EXPECT_EQ(epso[1].shards, 3) << "experts have copies along DP only";
  EXPECT_EQ(epso[1].shard, 2);
  const auto so = plan_buckets(some_specs(), mesh, 5, "so", 1);
  EXPECT_EQ(so[0].shards, 3) << "DP only, whatever the replica group";
  EXPECT_EQ(so[0].shard, 2);
  EXPECT_FALSE(so[0].is_owner) << "another EP rank speaks for the same states";
  EXPECT_TRUE(so[1].is_owner);
  for (const Bucket& bucket : plan_buckets(some_specs(), mesh, 5, "none", 1)) {
    EXPECT_EQ(bucket.shards, 1);
    EXPECT_FALSE(bucket.is_owner);
  }
}

/// Every element of every parameter has exactly one owner, in every layout.
TEST(BucketPlan, CoversEveryElementOnce) {
  const auto specs = some_specs();
  for (const char* sharding : {"epso", "so", "none"}) {
    for (const Index ep : {1, 2, 4}) {
      const Mesh mesh = mesh_of(3 * ep, ep);
      std::vector<std::multiset<Index>> seen(specs.size());
      for (Index rank = 0; rank < mesh.world(); ++rank) {
        for (const Bucket& bucket : plan_buckets(specs, mesh, rank, sharding, 300)) {
          for (const BucketEntry& entry : bucket.entries) {
            const ShardRange range = shard_range(bucket, entry);
            // Boxes split dimension 0 only, so that their elements are contiguous in the whole tensor.
            const Index base = entry.box.begin[0] * specs[static_cast<std::size_t>(entry.spec)].shape.count_from(1);
            for (Index i = 0; bucket.is_owner && i < range.count; ++i) seen[static_cast<std::size_t>(entry.spec)].insert(base + range.flat_begin + i);
          }
        }
      }
      for (std::size_t s = 0; s < specs.size(); ++s) {
        ASSERT_EQ(static_cast<Index>(seen[s].size()), specs[s].shape.count()) << sharding << " ep " << ep << " " << specs[s].name;
        EXPECT_EQ(*seen[s].begin(), 0);
        EXPECT_EQ(*seen[s].rbegin(), specs[s].shape.count() - 1);
        EXPECT_EQ(std::set<Index>(seen[s].begin(), seen[s].end()).size(), seen[s].size());
      }
    }
  }
}

TEST(BucketPlan, NamesAnExpertCountThatDoesNotDivide) { EXPECT_THROW((void)plan_buckets(some_specs(), mesh_of(3, 3), 0, "epso", 1), ConfigError); }

/// 16 bytes a parameter in all with bf16 weights: 2 weight + 4 gradient here, and 12 for the states of the own shard.
TEST(PlanBytes, FollowsTheFormula) {
  const std::vector<ParamSpec> specs = {{.name = "dense", .shape = {64, 64}}, {.name = "experts.{}.up", .shape = {8, 32, 64}, .is_expert = true}};
  ShardedOptimizer::Options options;
  const Index dense = 64 * 64, experts = 8 * 32 * 64;
  const Mesh mesh = mesh_of(8, 4);  // dp 2, ep 4
  const auto epso = ShardedOptimizer::plan_bytes(specs, options, mesh, 3);
  EXPECT_EQ(epso.weights, 2 * (dense + experts / 4));
  EXPECT_EQ(epso.gradients, 4 * (dense + experts / 4));
  EXPECT_EQ(epso.master, 4 * (dense / 8 + experts / 4 / 2));
  EXPECT_EQ(epso.moments, 2 * epso.master);
  options.parallel.optimizer_sharding = "so";
  EXPECT_EQ(ShardedOptimizer::plan_bytes(specs, options, mesh, 3).master, 4 * (dense / 2 + experts / 4 / 2));
  options.parallel.optimizer_sharding = "none";
  EXPECT_EQ(ShardedOptimizer::plan_bytes(specs, options, mesh, 3).master, 4 * (dense + experts / 4));
  options.precision = {.weights = "fp32", .gradients = "bf16"};
  options.optimizer.name = "sgd";
  const auto sgd = ShardedOptimizer::plan_bytes(specs, options, mesh, 3);
  EXPECT_EQ(sgd.master, 0) << "fp32 weights are their own master";
  EXPECT_EQ(sgd.moments, 0);
  EXPECT_EQ(sgd.weights, 4 * (dense + experts / 4));
  EXPECT_EQ(sgd.gradients, 2 * (dense + experts / 4));
}

}  // namespace
}  // namespace optimus
