// The figures of one step: a case checked by hand, and agreement with the library's own figures.
#include "simulate/step_simulator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "megaflux/base/rng.h"
#include "megaflux/plan/plan_stats.h"

namespace megaflux::simulate {
namespace {

StepSetting row_setting(PlannerKind planner, int32_t num_experts, int32_t num_ranks,
                        int32_t slots) {
  StepSetting setting;
  setting.plan.planner = planner;
  setting.plan.dims = {num_experts, num_ranks, slots, 1};
  return setting;
}

// The example of step_simulator.h, with a layer of H 16, I 8 in bf16: an expert is 768 bytes.
TEST(StepSimulator, HandCheckedStep) {
  StepSetting setting = row_setting(PlannerKind::kMegaflux, 2, 2, 1);
  setting.shape = LayerShape{.num_experts = 2, .topk = 1, .hidden = 16, .inter = 8};
  const std::vector<int32_t> rows = {6, 0, 2, 0};
  StepSimulator simulator(setting);
  const StepFigures& figures = simulator.simulate(LoadTable(2, 2, rows));
  ASSERT_TRUE(figures.has_plan);
  EXPECT_EQ(figures.total_rows, 8);
  EXPECT_DOUBLE_EQ(figures.kappa, 2);
  EXPECT_DOUBLE_EQ(figures.imbalance_fixed, 2);
  EXPECT_DOUBLE_EQ(figures.imbalance, 1);
  EXPECT_EQ(figures.replicas, 1);
  EXPECT_EQ(figures.copies, 1);
  EXPECT_EQ(figures.slots_needed, 1);
  EXPECT_EQ(figures.moved_rows, 4);
  EXPECT_EQ(figures.peak_rows, 128);
  EXPECT_EQ(figures.peak_rows_fixed, 128);
  EXPECT_EQ(figures.remote_rows_fixed, 2);
  EXPECT_EQ(figures.remote_rows, 2);
  EXPECT_EQ(figures.pair_rows_fixed, 2);
  EXPECT_EQ(figures.pair_rows, 2);
  EXPECT_EQ(figures.moved_bytes, 768);
  EXPECT_FALSE(figures.planned_ns.has_value());
  EXPECT_EQ(simulator.load_rows()[1], 4);
  EXPECT_EQ(simulator.load_rows_fixed()[1], 0);
}

// 1 GFLOP/s-like numbers that divide: a block of one row takes 1000 ns, planning 300 ns.
TEST(StepSimulator, HandCheckedTimes) {
  StepSetting setting = row_setting(PlannerKind::kMegaflux, 2, 2, 1);
  setting.plan.cost = CostModel{.block_ps = 1'000'000,
                                .weight_bytes = 5000,
                                .link_bytes_per_us = 1000,
                                .plan_ns = 300,
                                .pre_gate_ns = 20,
                                .copy_latency_ns = 100};
  const std::vector<int32_t> rows = {6, 0, 3, 0};
  StepSimulator simulator(setting);
  const StepFigures& figures = simulator.simulate(LoadTable(2, 2, rows));
  EXPECT_EQ(figures.fixed_ns, 9000u);
  EXPECT_EQ(figures.ideal_ns, 4500u);
  EXPECT_EQ(figures.second_ideal_ns, 5000u);
  // Rank 1 waits 5 us + 100 ns for the weights, computes 4 or 5 rows, and has no owned block.
  EXPECT_EQ(figures.planned_ns, simulator.report().predicted_ns);
  EXPECT_GE(*figures.planned_ns, 4000u + 5100 + 300);
}

TEST(StepSimulator, AgreesWithTheLibrarysFigures) {
  Rng rng(7);
  for (const PlannerKind kind : {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota,
                                 PlannerKind::kFixed, PlannerKind::kUltraep, PlannerKind::kLlep}) {
    StepSetting setting = row_setting(kind, 24, 5, 2);
    setting.plan.dims.block_rows = 32;
    StepSimulator simulator(setting);
    for (int i = 0; i < 20; ++i) {
      std::vector<int32_t> rows(5 * 24);
      for (int32_t& count : rows) count = static_cast<int32_t>(rng.below(200) * rng.below(3));
      const LoadTable loads(5, 24, rows);
      const StepFigures& figures = simulator.simulate(loads);
      const PlanStats stats = plan_stats(simulator.plan(), loads, setting.plan);
      EXPECT_DOUBLE_EQ(figures.imbalance, stats.rows.imbalance);
      EXPECT_EQ(figures.replicas, stats.num_replicas);
      EXPECT_EQ(figures.copies, stats.num_copies);
      EXPECT_EQ(figures.peak_rows, stats.peak_padded_rows);
      EXPECT_EQ(figures.remote_rows, stats.remote_rows);
      EXPECT_TRUE(std::equal(stats.load_rows.begin(), stats.load_rows.end(),
                             simulator.load_rows().begin()));
    }
  }
}

TEST(StepSimulator, OrphansGiveNoFigures) {
  StepSetting setting = row_setting(PlannerKind::kMegaflux, 2, 2, 1);
  setting.plan.active = {1, 0};
  const std::vector<int32_t> rows = {1, 1, 1, 1};
  StepSimulator simulator(setting);
  EXPECT_FALSE(simulator.simulate(LoadTable(2, 2, rows)).has_plan);
  EXPECT_EQ(simulator.report().orphans, std::vector<int32_t>{1});
}

}  // namespace
}  // namespace megaflux::simulate
