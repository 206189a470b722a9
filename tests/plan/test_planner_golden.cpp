// Known answers: hand cases, cases from bug reports, and the tables other planners were compared
// on.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "baselines/zipf_tables.h"
#include "megaflux/plan/legality.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

using Totals = std::vector<int64_t>;

// Zipf exponent 1.0 over 64 experts, 65,536 rows, largest first.
const Totals kZipf64 = {
    13853, 6907, 4604, 3453, 2762, 2302, 1973, 1726, 1534, 1381, 1255, 1151, 1062, 986, 920, 863,
    812,   767,  727,  690,  657,  627,  600,  575,  552,  531,  511,  493,  476,  460, 445, 431,
    418,   406,  394,  383,  373,  363,  354,  345,  336,  328,  321,  313,  306,  300, 293, 287,
    281,   276,  270,  265,  260,  255,  251,  246,  242,  238,  234,  230,  226,  222, 219, 215,
};

const Totals kFlash = {600, 560, 120, 120, 20, 10, 10, 10};

int32_t max_load(const Planned& planned) {
  return *std::max_element(planned.loads.begin(), planned.loads.end());
}

TEST(PlannerGolden, IC_46_reaches_the_proven_optimum) {
  const PlanConfig config = row_config(PlannerKind::kMegaflux, 8, 8, 1);
  const Planned planned = plan_once(config, loads_of(8, kFlash));
  EXPECT_EQ(planned.report.tau, 182);
  EXPECT_EQ(max_load(planned), 182);
  EXPECT_EQ(planned.plan.num_replicas(), 7);
  EXPECT_EQ(planned.plan.header().num_copies, 7);
  EXPECT_EQ(planned.plan.header().objective, 182u);
  EXPECT_GT(blocks_on(planned.plan, 0, 1), 0) << "rank 1, overloaded at first, must host expert 0";
}

TEST(PlannerGolden, IC_01_no_rank_holds_an_expert_twice) {
  for (const PlannerKind kind :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota}) {
    for (const int32_t slots : {1, 2, 4}) {
      const Planned planned = plan_once(row_config(kind, 8, 8, slots), loads_of(8, kFlash));
      for (int32_t e = 0; e < 8; ++e) {
        std::set<int32_t> ranks;
        int32_t replicas_at_owner = 0;
        for (const Instance& instance : planned.plan.instances_of(e)) {
          EXPECT_TRUE(ranks.insert(instance.rank).second) << "expert " << e;
          replicas_at_owner += instance.rank == e && instance.slot >= 0;
        }
        EXPECT_EQ(replicas_at_owner, 0);
      }
    }
  }
}

TEST(PlannerGolden, IC_08_free_slots_of_a_rank_that_holds_everything_stay_empty) {
  // Rank 0's only expert can have one replica on rank 1; rank 1's other slots have nothing to hold.
  for (const PlannerKind kind :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota}) {
    PlanConfig config = row_config(kind, 2, 2, 4);
    config.min_rows_per_replica = 1;
    config.speed = {1024, 64};  // rank 1 can take little: rank 0 stays the slowest
    const LoadTable loads = loads_of(2, {1000, 40});
    const Planned planned = plan_once(config, loads);
    EXPECT_TRUE(check_plan(planned.plan, loads, config).empty());
    EXPECT_LE(planned.plan.num_replicas(), 2);
  }
}

TEST(PlannerGolden, IC_44_experts_without_rows_get_no_replica) {
  const Totals half = {900, 0, 500, 0, 30, 0, 10, 0};
  for (const PlannerKind kind :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota, PlannerKind::kFixed}) {
    const PlanConfig config = row_config(kind, 8, 4, 2);
    const Planned planned = plan_once(config, loads_of(4, half));
    for (int32_t e = 1; e < 8; e += 2) EXPECT_EQ(planned.plan.instances_of(e).size(), 1u);
    const LoadTable none = loads_of(4, Totals(8, 0));
    const Planned empty = plan_once(config, none);
    EXPECT_TRUE(check_plan(empty.plan, none, config).empty());
    EXPECT_EQ(empty.plan.num_replicas(), 0);
    EXPECT_EQ(empty.plan.header().max_blocks, 0);
    EXPECT_EQ(empty.report.tau, 0);
  }
}

TEST(PlannerGolden, IC_48_reaches_the_cap_moving_eight_rows) {
  const Planned planned =
      plan_once(row_config(PlannerKind::kMegaflux, 8, 4, 2), loads_of(4, {9, 5, 7, 3, 3, 2, 2, 1}));
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{8, 8, 8, 8}));
  EXPECT_EQ(planned.moved, 8);
  EXPECT_EQ(planned.plan.num_replicas(), 3);
}

TEST(PlannerGolden, hand_case_reaches_the_floor_with_two_replicas) {
  const Totals hand = {40, 10, 10, 4, 8, 8, 8, 8, 2, 2, 2, 2, 1, 1, 1, 21};
  const Planned planned =
      plan_once(row_config(PlannerKind::kMegaflux, 16, 4, 1), loads_of(4, hand));
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{32, 32, 32, 32}));
  EXPECT_EQ(planned.plan.num_replicas(), 2);
  EXPECT_EQ(planned.moved, 32);
  EXPECT_EQ(blocks_on(planned.plan, 0, 2), 24) << "only expert 0 covers rank 2's deficit";
}

TEST(PlannerGolden, one_hot_is_split_evenly_with_one_replica_a_rank) {
  const Totals one_hot = {4096, 0, 0, 0, 0, 0, 0, 0};
  for (const PlannerKind kind : {PlannerKind::kMegaflux, PlannerKind::kPaper}) {
    const Planned planned = plan_once(row_config(kind, 8, 4, 1), loads_of(4, one_hot));
    EXPECT_EQ(planned.loads, (std::vector<int32_t>(4, 1024)));
    EXPECT_EQ(planned.plan.num_replicas(), 3);
    EXPECT_EQ(planned.moved, 3072);
  }
}

TEST(PlannerGolden, zipf_64_is_exact_with_no_more_replicas_than_others_need) {
  const Planned planned =
      plan_once(row_config(PlannerKind::kMegaflux, 64, 8, 2), loads_of(8, kZipf64));
  EXPECT_EQ(planned.report.tau, 8192);
  EXPECT_EQ(max_load(planned), 8192);
  EXPECT_LE(planned.plan.num_replicas(), 9);
  EXPECT_LE(planned.moved, 31308);
}

TEST(PlannerGolden, zipf_256_is_exact_with_one_slot) {
  const Planned planned =
      plan_once(row_config(PlannerKind::kMegaflux, 256, 8, 1), loads_of(8, kZipf256Seed7));
  EXPECT_EQ(planned.report.tau, 32768);
  EXPECT_EQ(max_load(planned), 32768);
  EXPECT_LE(planned.plan.num_replicas(), 7);
  EXPECT_LE(planned.moved, 88060);
}

TEST(PlannerGolden, uniform_loads_need_nothing) {
  for (const PlannerKind kind :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota}) {
    const Planned planned = plan_once(row_config(kind, 64, 8, 2), loads_of(8, Totals(64, 1024)));
    EXPECT_EQ(planned.plan.num_replicas(), 0);
    EXPECT_EQ(planned.plan.header().search_id, -1);
  }
}

TEST(PlannerGolden, IC_71_no_replica_crosses_a_domain) {
  PlanConfig config = row_config(PlannerKind::kMegaflux, 8, 8, 2);
  config.domain_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const LoadTable loads = loads_of(8, {400, 100, 60, 40, 0, 0, 0, 0});
  const Planned planned = plan_once(config, loads);
  EXPECT_TRUE(check_plan(planned.plan, loads, config).empty());
  EXPECT_EQ(planned.report.tau, 150) << "the floor of the loaded domain, not of all ranks";
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{150, 150, 150, 150, 0, 0, 0, 0}));
}

TEST(PlannerGolden, IC_21_domains_of_six_and_ten_ranks_are_solved_apart) {
  for (const PlannerKind kind :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota}) {
    PlanConfig config = row_config(kind, 50, 16, 2);
    for (int32_t r = 0; r < 16; ++r) config.domain_of.push_back(r < 6 ? 7 : 3);
    Totals totals(50, 90);
    totals[0] = 900;
    totals[49] = 1700;
    const LoadTable loads = loads_of(16, totals);
    const Planned planned = plan_once(config, loads);
    EXPECT_TRUE(check_plan(planned.plan, loads, config).empty());
    EXPECT_GE(max_load(planned), planned.report.tau);
    EXPECT_LE(max_load(planned), planned.report.tau * 11 / 10);
  }
}

TEST(PlannerGolden, IC_36_inactive_ranks_get_nothing_and_orphans_are_listed) {
  PlanConfig config = row_config(PlannerKind::kMegaflux, 64, 8, 2);
  config.active = {1, 1, 1, 0, 1, 1, 1, 1};
  Totals totals(64, 100);
  totals[2] = 3000;
  const Planned refused = plan_once(config, loads_of(8, totals));
  EXPECT_FALSE(refused.report.has_plan());
  EXPECT_EQ(refused.report.orphans, (std::vector<int32_t>{24, 25, 26, 27, 28, 29, 30, 31}));
  EXPECT_TRUE(refused.plan.empty());

  for (int32_t e = 24; e < 32; ++e) totals[e] = 0;
  totals[25] = 5;
  EXPECT_EQ(plan_once(config, loads_of(8, totals)).report.orphans, std::vector<int32_t>{25});
  totals[25] = 0;
  const LoadTable loads = loads_of(8, totals);
  const Planned planned = plan_once(config, loads);
  ASSERT_TRUE(planned.report.has_plan());
  EXPECT_TRUE(check_plan(planned.plan, loads, config).empty());
  EXPECT_EQ(planned.loads[3], 0);
  EXPECT_EQ(planned.report.tau, (2900 + 5600 + 6) / 7);
  EXPECT_EQ(max_load(planned), planned.report.tau);
}

// Slots are short: rank 0 can shed 11 blocks to each other rank, and rank 1, above tau itself, must
// host. Targets near tau close it; the optimum is 29 % above tau.
TEST(PlannerGolden, short_slots_are_met_by_a_target_between_tau_and_the_best) {
  Totals blocks(18, 11);
  std::fill(blocks.begin() + 6, blocks.end(), 7);
  std::fill(blocks.begin() + 12, blocks.end(), 1);
  const Planned planned =
      plan_once(row_config(PlannerKind::kMegaflux, 18, 3, 1), loads_of(3, blocks));
  EXPECT_EQ(planned.report.tau, 38);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{49, 48, 17}));
  EXPECT_GE(planned.plan.header().search_id, 18);
}

}  // namespace
}  // namespace megaflux
