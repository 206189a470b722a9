// Every rival on the shared comparison inputs: figures that were measured with independent
// implementations of the same algorithms.
#include <gtest/gtest.h>

#include <vector>

#include "baselines/baseline_fixture.h"
#include "baselines/zipf_tables.h"

namespace megaflux {
namespace {

const std::vector<int64_t> kOneHot = {4096, 0, 0, 0, 0, 0, 0, 0};                         // R 4
const std::vector<int64_t> kHand = {40, 10, 10, 4, 8, 8, 8, 8, 2, 2, 2, 2, 1, 1, 1, 21};  // R 4
const std::vector<int64_t> kUniform(64, 1024);                                            // R 8

TEST(BaselineGolden, moonep) {
  const auto run = [](const std::vector<int64_t>& totals, int32_t num_ranks) {
    return figures_of(baseline_config(PlannerKind::kMoonep, totals, num_ranks, 2), totals);
  };
  EXPECT_EQ(run(kOneHot, 4), (Figures{1.0, 3, 3072, 1}));
  EXPECT_EQ(run(kZipf64, 8), (Figures{1.0, 9, 31308, 2}));
  EXPECT_EQ(run(kZipf256Seed7, 8), (Figures{1.0, 7, 88060, 1}));
  EXPECT_EQ(run(kUniform, 8), (Figures{1.0, 0, 0, 0}));
}

TEST(BaselineGolden, llep) {
  const auto run = [](const std::vector<int64_t>& totals, int32_t num_ranks, int32_t alpha_ppm) {
    PlanConfig config = baseline_config(PlannerKind::kLlep, totals, num_ranks, 0);
    config.baselines.llep.alpha_ppm = alpha_ppm;
    return figures_of(config, totals);
  };
  EXPECT_EQ(run(kOneHot, 4, 1'000'000).replicas, 3);
  EXPECT_EQ(run(kOneHot, 4, 1'000'000).imbalance, 1.0);
  EXPECT_EQ(run(kZipf64, 8, 1'000'000), (Figures{1.0, 11, 30348, 4}));
  EXPECT_EQ(run(kZipf256Seed7, 8, 1'000'000), (Figures{1.0, 8, 88060, 2}));
  EXPECT_EQ(run(kOneHot, 4, 1'100'000), (Figures{1.1, 3, 2970, 1}));
  EXPECT_EQ(run(kZipf64, 8, 1'100'000), (Figures{1.1, 7, 28710, 2}));
  EXPECT_EQ(run(kZipf256Seed7, 8, 1'100'000), (Figures{1.1, 5, 84784, 1}));
  EXPECT_EQ(run(kUniform, 8, 1'000'000), (Figures{1.0, 0, 0, 0}));
}

TEST(BaselineGolden, echo) {
  const auto run = [](const std::vector<int64_t>& totals, int32_t num_ranks, int32_t slots,
                      EchoMode mode) {
    PlanConfig config = baseline_config(PlannerKind::kEcho, totals, num_ranks, slots);
    config.baselines.echo.mode = mode;
    return figures_of(config, totals).imbalance;
  };
  constexpr EchoMode kOneShot = EchoMode::kOneShot, kQueue = EchoMode::kQueue;
  EXPECT_EQ(run(kOneHot, 4, 1, kOneShot), 1.0);
  EXPECT_EQ(run(kOneHot, 4, 2, kOneShot), 1.0);
  EXPECT_EQ(run(kOneHot, 4, 1, kQueue), 1.0);
  EXPECT_EQ(run(kZipf64, 8, 1, kOneShot), 1.802);  // 14766 rows: 1.80249
  EXPECT_EQ(run(kZipf64, 8, 2, kOneShot), 1.070);
  EXPECT_EQ(run(kZipf64, 8, 1, kQueue), 1.216);
  EXPECT_EQ(run(kZipf256Seed7, 8, 1, kOneShot), 1.067);
  EXPECT_EQ(run(kZipf256Seed7, 8, 2, kOneShot), 1.0);
  EXPECT_EQ(run(kZipf256Seed7, 8, 1, kQueue), 1.009);
  EXPECT_EQ(run(kUniform, 8, 1, kQueue), 1.0);
  EXPECT_EQ(run(kUniform, 8, 2, kOneShot), 1.0);
}

TEST(BaselineGolden, eplb_on_the_exact_load) {
  const auto run = [](const std::vector<int64_t>& totals, int32_t num_ranks, int32_t slots) {
    return figures_of(baseline_config(PlannerKind::kEplb, totals, num_ranks, slots), totals)
        .imbalance;
  };
  // Whole rows: the ideal shares are 1.6 and 1.333.
  EXPECT_EQ(run(kOneHot, 4, 1), rounded(1639 / 1024.0));
  EXPECT_EQ(run(kOneHot, 4, 2), rounded(1366 / 1024.0));
  EXPECT_EQ(run(kZipf64, 8, 1), 1.001);
  EXPECT_EQ(run(kZipf64, 8, 2), 1.0);
  EXPECT_EQ(run(kZipf256Seed7, 8, 1), 1.0);
  EXPECT_EQ(run(kZipf256Seed7, 8, 2), 1.0);
  EXPECT_EQ(run(kUniform, 8, 1), 1.0);
}

TEST(BaselineGolden, lplb_on_the_exact_load) {
  const auto run = [](const std::vector<int64_t>& totals) {
    return figures_of(baseline_config(PlannerKind::kLplb, totals, 8, 2), totals).imbalance;
  };
  EXPECT_EQ(run(kZipf64), 1.112);
  EXPECT_EQ(run(kZipf256Seed7), 1.160);
  EXPECT_EQ(run(kUniform), 1.0);
}

TEST(BaselineGolden, eplb_and_lplb_by_an_unrelated_history) {
  const auto run = [](PlannerKind kind, const std::vector<int64_t>& history,
                      const std::vector<int64_t>& totals) {
    PlanConfig config = baseline_config(kind, totals, 8, 2);
    config.baselines.history = history;
    return rounded(figures_of(config, totals).imbalance, 2);
  };
  EXPECT_EQ(run(PlannerKind::kEplb, kZipf64Seed3, kZipf64), 2.11);
  EXPECT_EQ(run(PlannerKind::kLplb, kZipf64Seed3, kZipf64), 2.18);
  EXPECT_EQ(run(PlannerKind::kEplb, kZipf256Seed3, kZipf256Seed7), 2.40);
  EXPECT_EQ(run(PlannerKind::kLplb, kZipf256Seed3, kZipf256Seed7), 2.89);
}

TEST(BaselineGolden, by_hand_all_exact_planners_agree) {
  for (const PlannerKind kind : {PlannerKind::kMoonep, PlannerKind::kLlep, PlannerKind::kEcho}) {
    PlanConfig config = baseline_config(kind, kHand, 4, 2);
    config.baselines.llep.min_rows = 1;
    const Planned planned = run_baseline(config, kHand);
    EXPECT_EQ(planned.loads, (std::vector<int32_t>{32, 32, 32, 32})) << planner_name(kind);
    EXPECT_EQ(blocks_on(planned.plan, 0, 0), 8) << planner_name(kind);
    EXPECT_EQ(blocks_on(planned.plan, 0, 2), 24) << planner_name(kind);
    EXPECT_EQ(blocks_on(planned.plan, 0, 3), 8) << planner_name(kind);
    EXPECT_EQ(planned.plan.num_replicas(), 2) << planner_name(kind);
    EXPECT_EQ(planned.moved, 32) << planner_name(kind);
  }
}

TEST(BaselineGolden, IC_46_eplb_stays_above_the_optimum) {
  const std::vector<int64_t> totals = {600, 560, 120, 120, 20, 10, 10, 10};
  const Planned planned = run_baseline(baseline_config(PlannerKind::kEplb, totals, 8, 1), totals);
  EXPECT_EQ(planned.plan.header().max_blocks, 232);
}

TEST(BaselineGolden, IC_48_moonep_moves_nine_rows) {
  const std::vector<int64_t> totals = {9, 5, 7, 3, 3, 2, 2, 1};
  const Planned planned = run_baseline(baseline_config(PlannerKind::kMoonep, totals, 4, 2), totals);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{8, 8, 8, 8}));
  EXPECT_EQ(planned.moved, 9);
  EXPECT_EQ(blocks_on(planned.plan, 0, 3), 5);
  EXPECT_EQ(blocks_on(planned.plan, 2, 2), 3);
  EXPECT_EQ(blocks_on(planned.plan, 1, 1), 1);
}

}  // namespace
}  // namespace megaflux
