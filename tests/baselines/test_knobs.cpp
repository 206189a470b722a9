// The rivals' knobs, what they refuse, and what executors refuse of them.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "baselines/baseline_fixture.h"
#include "megaflux/base/check.h"

namespace megaflux {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BaselineKnobs, broadcast_stops_where_the_next_expert_costs_more) {
  PlanConfig config = row_config(PlannerKind::kBroadcast, 2, 2, 0);
  config.baselines.broadcast = {.gflops = 1000, .link_mb_per_s = 1000, .hidden = 64, .inter = 64};
  // Latency 257.8 us; 112.4 us with expert 0 everywhere, 114.7 us with both.
  const LoadTable loads(2, 2, std::vector<int32_t>{900, 100, 700, 300});
  const Planned planned = plan_once(config, loads);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{900, 1100}));
  EXPECT_EQ(planned.plan.num_replicas(), 1);
  EXPECT_EQ(planned.report.slots_needed, 1);
  config.baselines.broadcast.inter = 8;  // a broadcast costs an eighth
  EXPECT_EQ(plan_once(config, loads).plan.num_replicas(), 2);
  config.baselines.broadcast.inter = 1 << 16;
  config.baselines.broadcast.gflops = 1'000'000;
  EXPECT_EQ(plan_once(config, loads).plan.num_replicas(), 0);
}

TEST(BaselineKnobs, echo_reclaims_the_smallest_offloads) {
  const std::vector<int64_t> totals = {40, 10, 10, 4, 8, 8, 8, 8, 2, 2, 2, 2, 1, 1, 1, 21};
  PlanConfig config = baseline_config(PlannerKind::kEcho, totals, 4, 2);
  EXPECT_EQ(run_baseline(config, totals).loads, (std::vector<int32_t>{32, 32, 32, 32}));
  config.baselines.echo.reclaim_ppm = 300'000;  // up to 41 rows
  EXPECT_EQ(run_baseline(config, totals).loads, (std::vector<int32_t>{40, 32, 32, 24}));
}

TEST(BaselineKnobs, llep_leaves_steps_below_its_gate_alone) {
  const std::vector<int64_t> totals = {129, 100, 90, 81};  // imbalance 1.29
  PlanConfig config = baseline_config(PlannerKind::kLlep, totals, 4, 2);
  config.baselines.llep.min_rows = 1;
  EXPECT_EQ(run_baseline(config, totals).moved, 0);
  config.baselines.llep.gate_ppm = 1'290'000;
  EXPECT_EQ(run_baseline(config, totals).moved, 0) << "at the gate";
  config.baselines.llep.gate_ppm = 1'289'999;
  EXPECT_EQ(run_baseline(config, totals).loads, std::vector<int32_t>(4, 100));
}

TEST(BaselineKnobs, ultraep_owners_keep_a_row_unless_told_otherwise) {
  const std::vector<int64_t> totals = {5, 5, 0, 0};
  PlanConfig config = baseline_config(PlannerKind::kUltraep, totals, 2, 1);
  config.baselines.ultraep.margin_ppm = 0;
  EXPECT_EQ(run_baseline(config, totals).loads, (std::vector<int32_t>{6, 4}));
  config.baselines.ultraep.owner_may_be_empty = true;
  const Planned planned = run_baseline(config, totals);
  EXPECT_EQ(planned.loads, (std::vector<int32_t>{5, 5}));
  EXPECT_EQ(blocks_on(planned.plan, 0, 0), 0);
}

TEST(BaselineKnobs, every_bad_knob_is_named_with_value_and_limit) {
  struct Bad {
    std::function<void(BaselineConfig&)> spoil;
    std::string words;
  };
  const std::vector<Bad> bad = {
      {[](auto& b) { b.ultraep.min_rows_per_replica = 0; },
       "ultraep.min_rows_per_replica: 0 is outside [1, 2147483647]"},
      {[](auto& b) { b.eplb.num_groups = 3; }, "eplb.num_groups: 3 does not divide E = 8"},
      {[](auto& b) { b.eplb.num_nodes = 5; }, "eplb.num_nodes: 5 is outside [1, 4]"},
      {[](auto& b) { b.llep.alpha_ppm = 0; }, "llep.alpha_ppm: 0 is outside [1, 1000000000]"},
      {[](auto& b) { b.broadcast.hidden = 0; }, "broadcast.hidden: 0 is outside [1, 65536]"},
      {[](auto& b) {
         b.history = {1, 2};
       },
       "history: 2 entries, E = 8 are needed"},
      {[](auto& b) {
         b.lplb = {.source_of = {0, 1, 2, 3}, .num_columns = 1};
       },
       "lplb.source_of: column 0, rank 0: 0 is its own or there twice"},
  };
  for (const Bad& one : bad) {
    PlanConfig config = row_config(PlannerKind::kEplb, 8, 4, 1);
    one.spoil(config.baselines);
    EXPECT_EQ(error_of([&] { make_planner(config); }), one.words);
  }
}

TEST(BaselineKnobs, knobs_enter_the_hash_of_baselines_only) {
  PlanConfig ours = row_config(PlannerKind::kMegaflux, 8, 4, 1);
  PlanConfig rival = row_config(PlannerKind::kLlep, 8, 4, 1);
  const uint64_t ours_before = config_hash(ours), rival_before = config_hash(rival);
  ours.baselines.llep.min_rows = rival.baselines.llep.min_rows = 7;
  EXPECT_EQ(config_hash(ours), ours_before);
  EXPECT_NE(config_hash(rival), rival_before);
}

TEST(BaselineKnobs, executors_refuse_more_slots_and_other_owners) {
  PlanConfig config = row_config(PlannerKind::kLlep, 8, 4, 2);
  PlanReport report;
  report.slots_needed = 2;
  EXPECT_EQ(error_of([&] { check_runs_as_configured(config, report); }), "no error");
  report.slots_needed = 3;
  EXPECT_EQ(error_of([&] { check_runs_as_configured(config, report); }),
            "llep: this step's plan needs 3 replica slots a rank, there are 2");
  config.planner = PlannerKind::kEplb;
  report = PlanReport();
  report.moved_owners = 5;
  EXPECT_EQ(error_of([&] { check_runs_as_configured(config, report); }),
            "eplb: this step's plan gives 5 experts another owner, their weights stay where they "
            "are");
}

}  // namespace
}  // namespace megaflux
