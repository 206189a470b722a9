// What stands in a report, against the same figures from the planner and plan_stats.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "megaflux/plan/plan_stats.h"
#include "viewer/report_fixture.h"

namespace megaflux::viewer {
namespace {

constexpr TraceExtent kWithSources{.steps = 40, .layers = 3, .ranks = 4, .experts = 12};
constexpr TraceExtent kWithoutSources{.steps = 40, .layers = 3, .ranks = 1, .experts = 12};

PlanConfig fixed_of(PlanConfig config) {
  config.planner = PlannerKind::kFixed;
  return config;
}

std::vector<std::pair<int32_t, int32_t>> replicas_of(const Plan& plan) {
  std::vector<std::pair<int32_t, int32_t>> replicas;
  for (int32_t e = 0; e < plan.dims().num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot >= 0) replicas.emplace_back(e, instance.rank);
    }
  }
  return replicas;
}

// Every column of every cell.
void expect_cells(const Trace& trace, const PlanConfig& config, const ReadReport& report) {
  const auto rows = report.array<uint32_t>("cells", "rows");
  const auto kappas = report.array<float>("cells", "kappa");
  const auto before = report.array<float>("cells", "imbalance_before");
  const auto after = report.array<float>("cells", "imbalance_after");
  const auto tau_ratio = report.array<float>("cells", "tau_ratio");
  const auto copies = report.array<uint16_t>("cells", "copies");
  const auto churn = report.array<uint16_t>("cells", "churn");
  const auto moved = report.array<uint32_t>("cells", "moved_rows");
  const auto peak_before = report.array<uint32_t>("cells", "peak_before");
  const auto peak_after = report.array<uint32_t>("cells", "peak_after");
  const auto planner = make_planner(config), fixed = make_planner(fixed_of(config));
  ASSERT_EQ(rows.size(), static_cast<size_t>(trace.num_steps() * trace.num_layers()));
  for (int32_t l = 0; l < trace.num_layers(); ++l) {
    std::vector<std::pair<int32_t, int32_t>> previous;
    for (int64_t s = 0; s < trace.num_steps(); ++s) {
      const int64_t c = s * trace.num_layers() + l;
      const LoadTable loads = trace.loads(s, l, config.dims.num_ranks);
      Plan plan, fixed_plan;
      PlanReport plan_report, fixed_report;
      planner->plan(loads, {}, plan, plan_report);
      fixed->plan(loads, {}, fixed_plan, fixed_report);
      const PlanStats stats = plan_stats(plan, loads, config);
      const PlanStats fixed_stats = plan_stats(fixed_plan, loads, fixed_of(config));
      ASSERT_EQ(rows[c], loads.total_rows());
      ASSERT_FLOAT_EQ(kappas[c], static_cast<float>(kappa(loads)));
      ASSERT_FLOAT_EQ(before[c], static_cast<float>(fixed_stats.rows.imbalance));
      ASSERT_FLOAT_EQ(after[c], static_cast<float>(stats.rows.imbalance));
      ASSERT_FLOAT_EQ(tau_ratio[c], static_cast<float>(plan.header().max_blocks) /
                                        static_cast<float>(plan_report.tau));
      ASSERT_EQ(copies[c], stats.num_copies);
      ASSERT_EQ(peak_before[c], fixed_stats.peak_padded_rows);
      ASSERT_EQ(peak_after[c], stats.peak_padded_rows);
      int64_t moved_rows = 0;
      for (int32_t e = 0; e < config.dims.num_experts; ++e) {
        for (const Instance& instance : plan.instances_of(e)) {
          if (instance.slot < 0) continue;
          moved_rows += loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, 128);
        }
      }
      ASSERT_EQ(moved[c], moved_rows);
      const auto replicas = replicas_of(plan);
      const auto is_fresh = [&](const auto& replica) {
        return std::find(previous.begin(), previous.end(), replica) == previous.end();
      };
      const auto fresh = std::count_if(replicas.begin(), replicas.end(), is_fresh);
      ASSERT_EQ(churn[c], s == 0 ? 65535 : fresh) << "step " << s << ", layer " << l;
      if (loads.has_sources()) {
        ASSERT_EQ(report.array<uint32_t>("cells", "remote_before")[c], *fixed_stats.remote_rows);
        ASSERT_EQ(report.array<uint32_t>("cells", "remote_after")[c], *stats.remote_rows);
      }
      previous = replicas;
    }
  }
}

TEST(ReportData, CellsWithSources) {
  const Trace trace = drifting_trace(kWithSources);
  const ReportSetting setting = setting_for(trace, 4, false);
  const ReadReport report(report_html(trace, setting));
  expect_cells(trace, setting.step.plan, report);
  EXPECT_EQ(report.trace().at("has_sources"), true);
}

TEST(ReportData, CellsWithoutSources) {
  const Trace trace = drifting_trace(kWithoutSources);
  const ReportSetting setting = setting_for(trace, 6, false);
  const ReadReport report(report_html(trace, setting));
  expect_cells(trace, setting.step.plan, report);
  const Json& cells = report.trace().at("cells");
  EXPECT_EQ(report.trace().at("has_sources"), false);
  for (const char* absent : {"remote_before", "moved_bytes", "fixed_us", "plan_us", "flags"}) {
    EXPECT_FALSE(cells.contains(absent)) << absent;
  }
  EXPECT_FALSE(report.trace().at("details").contains("traffic_before"));
}

TEST(ReportData, DetailsAddUp) {
  const Trace trace = drifting_trace(kWithSources);
  const ReportSetting setting = setting_for(trace, 4, false);
  const ReadReport report(report_html(trace, setting));
  const auto cells = report.array<uint32_t>("details", "cell");
  const auto expert_rows = report.array<uint32_t>("details", "expert_rows");
  const auto before = report.array<uint32_t>("details", "rows_before");
  const auto after = report.array<uint32_t>("details", "rows_after");
  const auto begin = report.array<uint32_t>("details", "instance_begin");
  const auto experts = report.array<uint16_t>("details", "instance_expert");
  const auto ranks = report.array<uint16_t>("details", "instance_rank");
  const auto rows = report.array<uint32_t>("details", "instance_rows");
  const auto traffic_before = report.array<uint32_t>("details", "traffic_before");
  const auto traffic_after = report.array<uint32_t>("details", "traffic_after");
  ASSERT_EQ(cells.size(), 120u);
  ASSERT_EQ(begin.size(), cells.size() + 1);
  ASSERT_EQ(begin.back(), rows.size());
  const int32_t E = 12, P = 4;
  for (size_t d = 0; d < cells.size(); ++d) {
    const LoadTable loads = trace.loads(cells[d] / 3, static_cast<int32_t>(cells[d] % 3), P);
    std::vector<uint32_t> of_expert(E, 0), of_rank(P, 0), fixed_rank(P, 0);
    for (uint32_t i = begin[d]; i < begin[d + 1]; ++i) {
      ASSERT_GT(rows[i], 0u);
      of_expert[experts[i]] += rows[i];
      of_rank[ranks[i]] += rows[i];
      if (i == begin[d]) continue;
      ASSERT_LT(std::pair(experts[i - 1], ranks[i - 1]), std::pair(experts[i], ranks[i]));
    }
    for (int32_t e = 0; e < E; ++e) {
      ASSERT_EQ(of_expert[e], loads.totals()[e]);
      ASSERT_EQ(expert_rows[d * E + e], loads.totals()[e]);
      fixed_rank[setting.step.plan.owner_of[e]] += loads.totals()[e];
    }
    for (int32_t r = 0; r < P; ++r) {
      ASSERT_EQ(after[d * P + r], of_rank[r]);
      ASSERT_EQ(before[d * P + r], fixed_rank[r]);
      uint32_t sent = 0, sent_before = 0, hosted = 0, hosted_before = 0, at_source = 0;
      for (int32_t q = 0; q < P; ++q) {
        sent += traffic_after[(d * P + r) * P + q];
        sent_before += traffic_before[(d * P + r) * P + q];
        hosted += traffic_after[(d * P + q) * P + r];
        hosted_before += traffic_before[(d * P + q) * P + r];
      }
      for (int32_t e = 0; e < E; ++e) at_source += loads.rows(r, e);
      ASSERT_EQ(sent, at_source);
      ASSERT_EQ(sent_before, at_source);
      ASSERT_EQ(hosted, of_rank[r]);
      ASSERT_EQ(hosted_before, fixed_rank[r]);
    }
  }
}

TEST(ReportData, PredictionsAreThoseOfTheSimulator) {
  const Trace trace = drifting_trace(kWithSources);
  const ReportSetting setting = setting_for(trace, 4, true);
  const ReadReport report(report_html(trace, setting));
  const auto fixed = report.array<float>("cells", "fixed_us");
  const auto planned = report.array<float>("cells", "planned_us");
  const auto ideal = report.array<float>("cells", "ideal_us");
  const auto second_ideal = report.array<float>("cells", "second_ideal_us");
  const auto bytes = report.array<float>("cells", "moved_bytes");
  const auto copies = report.array<uint16_t>("cells", "copies");
  simulate::StepSimulator simulator(setting.step);
  for (size_t c = 0; c < fixed.size(); ++c) {
    const auto& figures = simulator.simulate(
        trace.loads(static_cast<int64_t>(c) / 3, static_cast<int32_t>(c % 3), 4));
    EXPECT_FLOAT_EQ(fixed[c], static_cast<float>(*figures.fixed_ns) / 1000);
    EXPECT_FLOAT_EQ(planned[c], static_cast<float>(*figures.planned_ns) / 1000);
    EXPECT_FLOAT_EQ(bytes[c], static_cast<float>(copies[c]) * 3 * 2048 * 768 * 2);
    EXPECT_LE(ideal[c], second_ideal[c]);
    EXPECT_LE(second_ideal[c], fixed[c]);
  }
  EXPECT_EQ(report.trace().at("setting").at("model_shape").at("hidden"), 2048);
  EXPECT_EQ(report.trace().at("setting").at("machine").at("name"), "h200");
}

// The header example of cell_columns.h.
TEST(ReportData, HeaderExampleOfTheColumns) {
  TraceData data;
  data.meta = {.num_experts = 2, .topk = 1, .num_ranks = 1, .layers = {0}, .time_ordered = true};
  data.num_steps = 2;
  data.load_ranks = 1;
  data.loads = {8, 0, 6, 2};
  const Trace trace(std::move(data));
  ReportSetting setting = setting_for(trace, 2, false);
  setting.step.plan.dims.replica_slots = 1;
  setting.step.plan.dims.block_rows = 1;
  const ReadReport report(report_html(trace, setting));
  EXPECT_EQ(report.array<float>("cells", "imbalance_before"), (std::vector<float>{2, 1.5}));
  EXPECT_EQ(report.array<float>("cells", "imbalance_after"), (std::vector<float>{1, 1}));
  EXPECT_EQ(report.array<uint16_t>("cells", "copies"), (std::vector<uint16_t>{1, 1}));
  EXPECT_EQ(report.array<uint32_t>("cells", "moved_rows"), (std::vector<uint32_t>{4, 2}));
  EXPECT_EQ(report.array<uint16_t>("cells", "churn"), (std::vector<uint16_t>{65535, 0}));
}

TEST(ReportData, StepsInNoOrderHaveNoChurn) {
  TraceData data = drifting_trace(kWithoutSources).data();
  data.meta.time_ordered = false;
  data.flags.assign(120, 0);
  data.flags[7] = 2;
  const Trace trace(std::move(data));
  const ReadReport report(report_html(trace, setting_for(trace, 4, false)));
  EXPECT_FALSE(report.trace().at("cells").contains("churn"));
  EXPECT_EQ(report.array<uint8_t>("cells", "flags")[7], 2);
}

TEST(ReportData, ScaledRows) {
  const Trace trace = drifting_trace(kWithSources);
  ReportSetting setting = setting_for(trace, 4, false);
  setting.rows_per_rank = 1000;
  const ReadReport report(report_html(trace, setting));
  for (const uint32_t rows : report.array<uint32_t>("cells", "rows")) EXPECT_EQ(rows, 4000u);
  const auto expert_rows = report.array<uint32_t>("details", "expert_rows");
  EXPECT_EQ(std::accumulate(expert_rows.begin(), expert_rows.begin() + 12, 0u), 4000u);
}

}  // namespace
}  // namespace megaflux::viewer
