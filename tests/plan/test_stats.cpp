#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/moe/work_list.h"
#include "megaflux/plan/plan_stats.h"
#include "plan/any_plan.h"

namespace megaflux {
namespace {

using Rows = std::vector<int64_t>;

// The example of plan/plan_stats.h.
struct Example {
  PlanConfig config;
  LoadTable loads{2, 3, std::vector<int32_t>{300, 60, 45, 300, 40, 45}};
  Plan plan;

  Example() {
    config.dims = {3, 2, 1, 128};
    lay_out({});
  }
  void lay_out(std::vector<int32_t> resident, int32_t replica_blocks = 2) {
    const std::vector<int32_t> owner_of{0, 0, 1};
    const std::vector<int32_t> blocks{5, 1, 1};
    const std::vector<DraftReplica> replicas{
        {.expert = 0, .rank = 1, .num_blocks = replica_blocks}};
    plan.assign({.dims = config.dims,
                 .owner_of = owner_of,
                 .blocks = blocks,
                 .replicas = replicas,
                 .resident = resident});
  }
};

// H = 16, I = 8: W1 and W2 hold 384 parameters.
LayerShape small_shape() {
  LayerShape shape;
  shape.num_experts = 3;
  shape.topk = 2;
  shape.hidden = 16;
  shape.inter = 8;
  return shape;
}

TEST(PlanStats, ExampleOfTheHeader) {
  const Example example;
  const PlanStats stats = plan_stats(example.plan, example.loads, example.config);
  EXPECT_EQ(stats.load_blocks, (Rows{4, 3}));
  EXPECT_EQ(stats.load_rows, (Rows{484, 306}));
  EXPECT_EQ(stats.padded_rows, (Rows{512, 384}));
  EXPECT_EQ(stats.peak_padded_rows, 512);
  EXPECT_EQ(stats.finish, (Rows{4, 3}));
  EXPECT_EQ(stats.tau, 4);
  EXPECT_EQ(stats.blocks.max, 4);
  EXPECT_EQ(stats.blocks.mean, 3.5);
  EXPECT_EQ(stats.blocks.imbalance, 4 / 3.5);
  EXPECT_EQ(stats.rows.max, 484);
  EXPECT_EQ(stats.rows.mean, 395.0);
  EXPECT_EQ(stats.rows.imbalance, 484 / 395.0);
  EXPECT_EQ(stats.num_replicas, 1);
  EXPECT_EQ(stats.num_copies, 1);
  EXPECT_EQ(stats.moved_blocks, 2);
  EXPECT_EQ(stats.remote_rows, 169);
  EXPECT_EQ(traffic_rows(example.plan, example.loads), (Rows{360, 45, 124, 261}));
}

TEST(PlanStats, BytesOfForwardByHand) {
  const Example example;
  const auto bytes = bytes_per_rank(example.plan, example.loads, forward_sizes(small_shape()));
  const int64_t row = 16 * 2;
  const int64_t expert = 384 * 2;
  EXPECT_EQ(bytes[0], (RankBytes{.dispatch_in = 124 * row,
                                 .dispatch_out = 45 * row,
                                 .combine_in = 45 * row,
                                 .combine_out = 124 * row,
                                 .weights_out = expert}));
  EXPECT_EQ(bytes[1], (RankBytes{.dispatch_in = 45 * row,
                                 .dispatch_out = 124 * row,
                                 .combine_in = 124 * row,
                                 .combine_out = 45 * row,
                                 .weights_in = expert}));
  EXPECT_EQ(bytes[0].in(), 169 * row);
  EXPECT_EQ(bytes[0].out(), 169 * row + expert);
}

TEST(PlanStats, BytesOfBackwardByHand) {
  const Example example;
  const LayerShape shape = small_shape();
  const auto again =
      bytes_per_rank(example.plan, example.loads,
                     backward_sizes(shape, SavedInput::kPulledAgain, SlotWeights::kPulledAgain));
  EXPECT_EQ(again[1], (RankBytes{.dispatch_in = 45 * (32 + 32 + 4),
                                 .dispatch_out = 124 * (32 + 32 + 4),
                                 .combine_in = 124 * (32 + 4),
                                 .combine_out = 45 * (32 + 4),
                                 .weights_in = 384 * 2,
                                 .gradients_out = 384 * 4}));
  const auto kept = bytes_per_rank(example.plan, example.loads,
                                   backward_sizes(shape, SavedInput::kKept, SlotWeights::kKept));
  EXPECT_EQ(kept[0], (RankBytes{.dispatch_in = 124 * (32 + 4),
                                .dispatch_out = 45 * (32 + 4),
                                .combine_in = 45 * (32 + 4),
                                .combine_out = 124 * (32 + 4),
                                .gradients_in = 384 * 4}));
  RankBytes sum = again[0];
  sum += kept[0];
  EXPECT_EQ(sum.in(), again[0].in() + kept[0].in());
  EXPECT_EQ(sum.out(), again[0].out() + kept[0].out());
}

TEST(PlanStats, BiasesAndFp32TravelToo) {
  LayerShape shape = small_shape();
  shape.dtype = DType::kFp32;
  shape.has_bias = true;
  EXPECT_EQ(forward_sizes(shape).dispatch_row, 64);
  EXPECT_EQ(forward_sizes(shape).replica, 4 * (384 + 32));
  EXPECT_EQ(backward_sizes(shape, SavedInput::kKept, SlotWeights::kKept).gradient, 4 * (384 + 32));
}

TEST(PlanStats, ResidentReplicaMovesNoWeightsButItsGradient) {
  Example example;
  example.lay_out({-1, 0});
  EXPECT_EQ(plan_stats(example.plan, example.loads, example.config).num_copies, 0);
  const auto bytes =
      bytes_per_rank(example.plan, example.loads,
                     backward_sizes(small_shape(), SavedInput::kKept, SlotWeights::kPulledAgain));
  EXPECT_EQ(bytes[1].weights_in, 0);
  EXPECT_EQ(bytes[0].weights_out, 0);
  EXPECT_EQ(bytes[1].gradients_out, 384 * 4);
}

TEST(PlanStats, ReplicaWithoutBlocksMovesWeightsButNoGradient) {
  Example example;
  example.lay_out({}, 0);
  const auto bytes = bytes_per_rank(example.plan, example.loads, {.replica = 7, .gradient = 1000});
  EXPECT_EQ(bytes[1], (RankBytes{.weights_in = 7}));
  EXPECT_EQ(bytes[0], (RankBytes{.weights_out = 7}));
}

TEST(PlanStats, WithoutSourcesRemoteRowsAreNull) {
  Example example;
  const std::vector<int64_t> totals{600, 100, 90};
  example.loads = LoadTable::from_totals(2, totals);
  const PlanStats stats = plan_stats(example.plan, example.loads, example.config);
  EXPECT_EQ(stats.remote_rows, std::nullopt);
  EXPECT_EQ(stats.load_rows, (Rows{484, 306}));
  EXPECT_THROW(traffic_rows(example.plan, example.loads), Error);
}

TEST(PlanStats, BaseWorkSpeedAndInactiveRanks) {
  Example example;
  example.config.base_blocks = {10, 0};
  example.config.speed = {1024, 512};
  const PlanStats stats = plan_stats(example.plan, example.loads, example.config);
  EXPECT_EQ(stats.finish, (Rows{14, 6}));
  // 7 blocks at T: T - 10 on rank 0 and T / 2 on rank 1; 11 holds 1 + 5, 12 holds 2 + 6.
  EXPECT_EQ(stats.tau, 12);

  example = {};
  example.config.base_blocks = {10, 0};
  example.config.dims.block_rows = 200;  // the plan counts blocks of 128 rows
  EXPECT_EQ(plan_stats(example.plan, example.loads, example.config).finish, (Rows{4 + 16, 3}));
  example.config.dims.block_rows = 256;
  EXPECT_EQ(plan_stats(example.plan, example.loads, example.config).finish, (Rows{4 + 20, 3}));
}

TEST(PlanStats, MeanIsOverActiveRanks) {
  Example example;
  example.config.dims = {1, 3, 0, 1};
  example.config.active = {1, 0, 1};
  example.loads = LoadTable(3, 1, std::vector<int32_t>{2, 3, 5});
  const std::vector<int32_t> owner_of{0};
  const std::vector<int32_t> blocks{10};
  example.plan.assign(
      {.dims = example.config.dims, .owner_of = owner_of, .blocks = blocks, .replicas = {}});
  const PlanStats stats = plan_stats(example.plan, example.loads, example.config);
  EXPECT_EQ(stats.rows.mean, 5.0);
  EXPECT_EQ(stats.rows.imbalance, 2.0);
  EXPECT_EQ(stats.tau, 5);
  EXPECT_EQ(stats.remote_rows, 8) << "an inactive source still has rows";
}

TEST(PlanStats, EmptyLayer) {
  // IC_44: all zero, no division by zero.
  Example example;
  example.config.dims = {2, 2, 1, 128};
  example.loads = LoadTable(2, 2, std::vector<int32_t>{0, 0, 0, 0});
  const std::vector<int32_t> owner_of{0, 1};
  const std::vector<int32_t> blocks{0, 0};
  example.plan.assign(
      {.dims = example.config.dims, .owner_of = owner_of, .blocks = blocks, .replicas = {}});
  const PlanStats stats = plan_stats(example.plan, example.loads, example.config);
  EXPECT_EQ(stats.rows.imbalance, 1.0);
  EXPECT_EQ(stats.tau, 0);
  EXPECT_EQ(stats.remote_rows, 0);
}

// Row by row: the source of every row of an expert in global order, the host of its block.
Rows traffic_by_rows(const PlanCase& c) {
  const PlanDims dims = c.plan.dims();
  Rows traffic(static_cast<size_t>(dims.num_ranks) * dims.num_ranks, 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    int32_t row = 0;
    for (int32_t source = 0; source < dims.num_ranks; ++source) {
      for (int32_t i = 0; i < c.loads.rows(source, e); ++i, ++row) {
        const int32_t block = row / dims.block_rows;
        const auto instances = c.plan.instances_of(e);
        const auto host = std::find_if(instances.begin(), instances.end(), [&](const auto& at) {
          return block >= at.first_block && block < at.first_block + at.num_blocks;
        });
        ++traffic.at(static_cast<size_t>(source) * dims.num_ranks + host->rank);
      }
    }
  }
  return traffic;
}

RC_GTEST_PROP(PlanStatsProperty, AgreesWithRowsWorkListsAndItself, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  const PlanCase c = any_plan_case(rng);
  const PlanDims dims = c.plan.dims();
  const PlanStats stats = plan_stats(c.plan, c.loads, c.config);
  const Rows traffic = traffic_rows(c.plan, c.loads);
  RC_ASSERT(traffic == traffic_by_rows(c));
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    WorkList list;
    list.assign(c.plan, c.loads, rank, PartOrder::kOwnedFirst);
    RC_ASSERT(stats.load_rows[rank] == list.num_rows());
    RC_ASSERT(stats.padded_rows[rank] == int64_t{list.num_tiles()} * kTileRows);
    RC_ASSERT(stats.finish[rank] == stats.load_blocks[rank]);
  }
  RC_ASSERT(std::accumulate(stats.load_rows.begin(), stats.load_rows.end(), int64_t{0}) ==
            c.loads.total_rows());
  RC_ASSERT(stats.blocks.max == c.plan.header().max_blocks);

  const auto bytes = bytes_per_rank(
      c.plan, c.loads, {.dispatch_row = 3, .combine_row = 5, .replica = 1000, .gradient = 100000});
  RankBytes sum;
  for (const RankBytes& rank : bytes) sum += rank;
  RC_ASSERT(sum.dispatch_in == 3 * stats.remote_rows.value());
  RC_ASSERT(sum.combine_in == 5 * stats.remote_rows.value());
  RC_ASSERT(sum.weights_in == 1000 * stats.num_copies);
  RC_ASSERT(sum.gradients_in == 100000 * stats.num_replicas);
  RC_ASSERT(sum.dispatch_in == sum.dispatch_out);
  RC_ASSERT(sum.combine_in == sum.combine_out);
  RC_ASSERT(sum.weights_in == sum.weights_out);
  RC_ASSERT(sum.gradients_in == sum.gradients_out);
}

}  // namespace
}  // namespace megaflux
