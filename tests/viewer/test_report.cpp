#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "moe/expect_error.h"
#include "simulate/case_sampler.h"
#include "simulate/sweep.h"
#include "viewer/break_even.h"
#include "viewer/report_fixture.h"

namespace megaflux::viewer {
namespace {

constexpr TraceExtent kExtent{.steps = 70, .layers = 2, .ranks = 4, .experts = 16};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Report, EqualBytesForAnyNumberOfThreads) {
  const Trace trace = drifting_trace(kExtent);
  for (const PlannerKind planner : {PlannerKind::kMegaflux, PlannerKind::kEplb}) {
    ReportSetting setting = setting_for(trace, 4, true);
    setting.step.plan.planner = planner;
    setting.what_if.planners = {{.kind = PlannerKind::kQuota},
                                {.kind = PlannerKind::kLplb, .by_history = true}};
    std::string first;
    for (const int32_t threads : {1, 2, 5}) {
      setting.num_threads = threads;
      const std::string html = report_html(trace, setting);
      if (threads == 1) first = html;
      EXPECT_TRUE(html == first) << threads << " threads";
    }
  }
}

// One step, one layer, one expert, more ranks than experts, experts without rows: rows are kept.
TEST(Report, AnyExtent) {
  const TraceExtent extents[] = {
      {1, 1, 1, 1}, {1, 1, 2, 3}, {2, 3, 1, 7}, {33, 1, 5, 5}, {65, 1, 1, 9}};
  for (const TraceExtent& extent : extents) {
    TraceData data = drifting_trace(extent).data();
    for (size_t i = 0; i < data.loads.size(); i += 3) data.loads[i] = 0;
    const Trace trace(std::move(data));
    for (const int32_t num_ranks : {1, 2, 5, 16}) {
      const ReadReport report(report_html(trace, setting_for(trace, num_ranks, true)));
      const auto cells = report.array<uint32_t>("details", "cell");
      const auto rows = report.array<uint32_t>("cells", "rows");
      const auto begin = report.array<uint32_t>("details", "instance_begin");
      const auto instance_rows = report.array<uint32_t>("details", "instance_rows");
      ASSERT_EQ(cells.size(), rows.size());
      for (size_t d = 0; d < cells.size(); ++d) {
        const auto* first = instance_rows.data();
        ASSERT_EQ(std::accumulate(first + begin[d], first + begin[d + 1], 0u), rows[cells[d]]);
      }
      for (const float imbalance : report.array<float>("cells", "imbalance_after")) {
        ASSERT_GE(imbalance, 1.0f);
      }
    }
  }
}

TEST(Report, TimesAreThereWhereAskedFor) {
  const Trace trace = drifting_trace(kExtent);
  ReportSetting setting = setting_for(trace, 4, false);
  EXPECT_EQ(ReadReport(report_html(trace, setting)).trace()["what_if"]["rows"][0]["plan_us"],
            nullptr);
  setting.has_times = true;
  const ReadReport report(report_html(trace, setting));
  for (const float us : report.array<float>("cells", "plan_us")) EXPECT_GT(us, 0);
  EXPECT_GT(report.trace().at("what_if").at("rows").at(0).at("plan_us").get<double>(), 0);
}

// Planners by history see earlier steps: the plan of a cell is that of a walk through its layer.
TEST(Report, HistoryIsThatOfTheStepsBefore) {
  const Trace trace = drifting_trace(kExtent);
  ReportSetting setting = setting_for(trace, 4, false);
  setting.step.plan.planner = PlannerKind::kEplb;
  const ReadReport report(report_html(trace, setting));
  const auto after = report.array<float>("cells", "imbalance_after");
  const auto copies = report.array<uint16_t>("cells", "copies");
  const int64_t interval = simulate::history_interval_of(trace, {});
  ASSERT_EQ(interval, 17);
  for (int32_t l = 0; l < 2; ++l) {
    simulate::StepSimulator simulator(setting.step);
    simulator.set_history(std::vector<int64_t>(16, 1));
    std::vector<int64_t> seen(16, 0);
    for (int64_t s = 0; s < trace.num_steps(); ++s) {
      if (s > 0 && s % interval == 0) {
        simulator.set_history(seen);
        seen.assign(16, 0);
      }
      const LoadTable loads = trace.loads(s, l, 4);
      const auto& figures = simulator.simulate(loads);
      EXPECT_FLOAT_EQ(after[s * 2 + l], static_cast<float>(figures.imbalance)) << s;
      EXPECT_EQ(copies[s * 2 + l], figures.copies) << s;
      for (int32_t e = 0; e < 16; ++e) seen[e] += loads.totals()[e];
    }
  }
}

TEST(Report, TextOfATraceStaysText) {
  TraceData data = drifting_trace(kExtent).data();
  const std::string hostile = "</script><script>alert(1)</script><!-- \" \\ \u2028 ]]>";
  data.meta.model = data.meta.origin = data.meta.licence = hostile;
  const Trace trace(std::move(data));
  ReportSetting setting = setting_for(trace, 4, false);
  setting.name = hostile + "\xff.npz";
  const std::string html = report_html(trace, setting);
  EXPECT_EQ(count_of(html, "<script"), 2u);
  EXPECT_EQ(count_of(html, "</script"), 2u);
  EXPECT_EQ(count_of(html, "<!--"), 0u);
  const ReadReport report(html);
  EXPECT_EQ(report.trace().at("model"), hostile);
  EXPECT_EQ(report.trace().at("name"), hostile + "\ufffd.npz");
}

TEST(Report, FewerDetailsWhereTheyAreLarge) {
  const Trace trace = drifting_trace(kExtent);
  ReportSetting setting = setting_for(trace, 4, false);
  setting.detail_bytes = 3000;
  setting.asked = {{.layer_idx = 1, .step = 69}};
  const ReadReport report(report_html(trace, setting));
  const auto cells = report.array<uint32_t>("details", "cell");
  EXPECT_LT(cells.size(), 60u);
  EXPECT_EQ(cells.back(), 139u);
  EXPECT_EQ(report.array<uint8_t>("details", "why").back() & 8, 8);
  const auto text = report.trace().at("details").at("chosen").get<std::string>();
  EXPECT_NE(text.find("of 140 cells, fewer than 1000"), std::string::npos) << text;
}

TEST(Report, AskedCellsMustBeThere) {
  const Trace trace = drifting_trace(kExtent);
  ReportSetting setting = setting_for(trace, 4, false);
  setting.asked = {{.layer_idx = 2, .step = 0}};
  expect_bad_input([&] { report_html(trace, setting); },
                   {"--detail", "layer index 2", "[0, 1]", "drift.npz"});
  setting.asked = {{.layer_idx = 0, .step = 70}};
  expect_bad_input([&] { report_html(trace, setting); }, {"--detail", "step 70", "[0, 69]"});
}

TEST(Report, WhatIfTable) {
  const Trace trace = drifting_trace(kExtent);
  ReportSetting setting = setting_for(trace, 4, true);
  setting.what_if.ranks = {4, 8};
  const ReadReport report(report_html(trace, setting));
  const Json& table = report.trace().at("what_if");
  EXPECT_EQ(table.at("cells"), 140);
  EXPECT_EQ(table.at("text"), "all 140 cells");
  std::vector<std::string> labels;
  int best = 0;
  for (const Json& row : table.at("rows")) {
    labels.push_back(row.at("label"));
    best += row.at("is_best").get<bool>();
    EXPECT_LE(row.at("imbalance").at("median"), row.at("imbalance").at("max"));
    EXPECT_GT(row.at("share_of_ideal").get<double>(), 0);
    EXPECT_EQ(row.at("planner") == "fixed", row.at("break_even_rows").is_null()) << row;
  }
  EXPECT_EQ(labels,
            (std::vector<std::string>{"megaflux, 1 slot, 4 ranks", "fixed, 4 ranks",
                                      "megaflux, 2 slots, 4 ranks", "megaflux, 1 slot, 8 ranks",
                                      "fixed, 8 ranks", "megaflux, 2 slots, 8 ranks"}));
  EXPECT_EQ(best, 2);
}

TEST(BreakEven, TheAnswerWinsAndALittleLessDoesNot) {
  const Trace trace = drifting_trace(kExtent);
  simulate::StepSimulator simulator(setting_for(trace, 4, true).step);
  const std::vector<BreakEvenCell> cells = {{.loads = trace.loads(3, 0, 4)},
                                            {.loads = trace.loads(40, 1, 4)}};
  const auto wins = [&](int64_t rows) {
    uint64_t planned = 0, fixed = 0;
    for (const BreakEvenCell& cell : cells) {
      const auto& figures = simulator.simulate(simulate::scaled_loads(cell.loads, 2, rows));
      planned += *figures.planned_ns;
      fixed += *figures.fixed_ns;
    }
    return planned < fixed;
  };
  const auto rows = break_even_rows(simulator, cells, 2);
  ASSERT_TRUE(rows.has_value());
  EXPECT_GT(*rows, kLeastBreakEvenRows);
  EXPECT_TRUE(wins(*rows));
  int64_t loser = *rows - 1;
  while (loser > *rows * 15 / 16 && wins(loser)) --loser;
  EXPECT_GT(loser, *rows * 15 / 16) << *rows;
}

TEST(BreakEven, NeverWhereNothingCanBeGained) {
  const Trace trace = drifting_trace(kExtent);
  ReportSetting setting = setting_for(trace, 4, true);
  simulate::StepSimulator simulator(setting.step);
  const std::vector<BreakEvenCell> even = {
      {.loads = LoadTable::from_totals(4, std::vector<int64_t>(16, 4096))}};
  EXPECT_FALSE(break_even_rows(simulator, even, 2).has_value());
  setting.step.plan.cost.reset();
  simulate::StepSimulator blind(setting.step);
  EXPECT_FALSE(break_even_rows(blind, even, 2).has_value());
}

TEST(ReportFile, WholeOrNotAtAll) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "report_file";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string path = folder / "report.html";
  std::ofstream(path) << "before";
  const uint64_t bytes = write_report_file("-o", path, {"head", "tail"}, {{"a", 1}}, ArrayBlob());
  EXPECT_EQ(bytes, fs::file_size(path));
  EXPECT_GT(bytes, 100u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  expect_bad_input(
      [&] {
        write_report_file("-o", folder / "none" / "x.html", {"", ""}, Json(), ArrayBlob());
      },
      {"-o", "x.html", "No such file"});
  fs::remove_all(folder);
}

}  // namespace
}  // namespace megaflux::viewer
