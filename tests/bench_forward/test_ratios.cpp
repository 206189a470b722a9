// What `bench forward` makes of its pairs, of times that are made up.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/forward_ratios.h"
#include "megaflux/moe/load_table.h"

namespace megaflux::cli {
namespace {

// Two ranks, an expert each, and a replica of the first one on the other rank if `replicates`.
Plan plan_of(bool replicates) {
  PlanConfig config;
  config.dims = {.num_experts = 2, .num_ranks = 2, .replica_slots = replicates ? 1 : 0};
  config.planner = replicates ? PlannerKind::kMegaflux : PlannerKind::kFixed;
  Plan plan;
  PlanReport report;
  const std::vector<int64_t> totals = {4096, 128};
  make_planner(config)->plan(LoadTable::from_totals(2, totals), {}, plan, report);
  return plan;
}

class Sides {
 public:
  void add(const std::string& name, Plan plan, std::vector<double> ms,
           std::vector<double> planned_ms) {
    sides_.push_back({.name = name, .run = {}});
    figures_.runs.push_back(
        {.plan = std::move(plan), .ms = {std::move(ms), std::move(planned_ms)}});
  }
  std::map<std::string, ForwardRatio> ratios() const {
    std::map<std::string, ForwardRatio> found;
    for (const ForwardRatio& ratio : ratios_of(sides_, figures_)) found[ratio.name] = ratio;
    return found;
  }
  std::optional<std::string> gate_plan() const { return gate_plan_of(sides_, figures_); }
  std::optional<HiddenFraction> hidden() const { return hidden_of(sides_, figures_); }

 private:
  std::vector<ForwardSide> sides_;
  ForwardBenchFigures figures_;
};

TEST(ForwardRatios, EveryRatioIsTheMedianOfItsOwnPairs) {
  Sides sides;
  sides.add("planned", plan_of(true), {10, 11, 12}, {10, 10, 10});
  // Clocks that swing show in both times of a pair, and in no ratio.
  sides.add("fixed", plan_of(false), {20, 33, 24}, {10, 15, 12});
  sides.add("staged", plan_of(true), {13, 10, 12}, {10, 10, 10});
  sides.add("second ideal", plan_of(true), {9, 9, 9}, {10, 10, 12});
  sides.add("ideal", plan_of(false), {8, 8, 8}, {8, 10, 16});
  const auto ratios = sides.ratios();
  ASSERT_EQ(ratios.size(), 5);
  EXPECT_DOUBLE_EQ(ratios.at("balanced_fraction").value, 0.8);
  EXPECT_DOUBLE_EQ(ratios.at("self_ratio").value, 1.1);
  EXPECT_DOUBLE_EQ(ratios.at("skew_speedup").value, 2);
  EXPECT_DOUBLE_EQ(ratios.at("pipelined_over_staged").value, 1.2);
  EXPECT_DOUBLE_EQ(ratios.at("ideal_fraction").value, 0.9);
  const std::vector<std::array<double, 2>> pairs = {{20, 10}, {33, 15}, {24, 12}};
  EXPECT_EQ(ratios.at("skew_speedup").pairs, pairs);
  EXPECT_EQ(sides.gate_plan(), std::nullopt);
  EXPECT_FALSE(sides.hidden().has_value());
}

TEST(ForwardRatios, TheGateIsHeldAgainstTheBetterChoiceByRatio) {
  Sides sides;
  sides.add("planned", plan_of(true), {10}, {10});
  // The shorter time, but not beside its own planned.
  sides.add("fixed", plan_of(false), {9}, {8});
  sides.add("ungated", plan_of(true), {12}, {12.5});
  EXPECT_DOUBLE_EQ(sides.ratios().at("gate_ratio").value, 0.96);
  EXPECT_EQ(sides.gate_plan(), "ungated, the better one");
}

TEST(ForwardRatios, TheGatesPlanIsNamed) {
  struct Case {
    bool replicates, ungated_replicates;
    double fixed_ms;
    std::string said;
  };
  for (const auto& [replicates, ungated_replicates, fixed_ms, said] : {
           Case{true, true, 9, "ungated, not the better one"},
           Case{true, false, 11, "of its own"},
           Case{false, true, 9, "fixed, the better one"},
           Case{false, true, 11, "fixed, not the better one"},
           // No better one: the plan without replicas is held against fixed placement.
           Case{false, false, 10, "fixed, the better one"},
           Case{true, true, 10, "ungated, not the better one"},
           // Both choices are one plan: the better one's, whichever that is.
           Case{false, false, 9, "fixed, the better one"},
           Case{false, false, 11, "ungated, the better one"},
       }) {
    Sides sides;
    sides.add("planned", plan_of(replicates), {10}, {10});
    sides.add("fixed", plan_of(false), {fixed_ms}, {10});
    sides.add("ungated", plan_of(ungated_replicates), {10}, {10});
    EXPECT_EQ(sides.gate_plan(), said);
  }
}

TEST(ForwardRatios, TheHiddenFractionTakesTheTransferFromBothPairs) {
  Sides sides;
  sides.add("planned", plan_of(true), {30, 31, 32}, {30, 31, 32});
  sides.add("staged", plan_of(true), {14.5, 13, 12.5}, {12, 12, 12});
  sides.add("resident", plan_of(true), {9.75, 10.5, 10.5}, {10, 11, 10.5});
  const auto hidden = sides.hidden();
  ASSERT_TRUE(hidden.has_value());
  // Medians: 0.25 of {0.25, 0.5, 0} shows, of {2.75, 1.5, 0.5}.
  EXPECT_DOUBLE_EQ(hidden->value, 1 - 0.25 / 1.5);
  const std::vector<std::array<double, 3>> triples = {
      {10, 9.75, 2.75}, {11, 10.5, 1.5}, {10.5, 10.5, 0.5}};
  EXPECT_EQ(hidden->triples, triples);
}

TEST(ForwardRatios, WhatTakesNoTimeHidesNothing) {
  Sides sides;
  sides.add("planned", plan_of(true), {10}, {10});
  sides.add("staged", plan_of(true), {9}, {10});
  sides.add("resident", plan_of(true), {10}, {10});
  EXPECT_FALSE(sides.hidden().has_value());
  Sides still;  // moves no weights
  still.add("planned", plan_of(false), {10}, {10});
  still.add("staged", plan_of(false), {12}, {10});
  still.add("resident", plan_of(false), {9}, {10});
  EXPECT_FALSE(still.hidden().has_value());
}

}  // namespace
}  // namespace megaflux::cli
