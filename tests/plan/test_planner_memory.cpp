// Planning allocates nothing after the first call.
#include <gtest/gtest.h>

#include <vector>

#include "allocation/counted_allocation.h"
#include "megaflux/base/rng.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

TEST(PlannerMemory, IC_54_no_allocation_after_the_first_call) {
  std::vector<LoadTable> steps;
  for (uint64_t step = 0; step < 12; ++step) {
    // The first step needs little: three experts, and replicas of one of them.
    Rng rng(step);
    std::vector<int64_t> totals(96, 0);
    for (int32_t e = 0; e < (step == 0 ? 3 : 96); ++e) {
      totals[e] = rng.below(e % 11 == 0 ? 9000 : 300);
    }
    steps.push_back(loads_of(16, totals));
  }
  for (const PlannerKind kind : {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota,
                                 PlannerKind::kFixed, PlannerKind::kUltraep}) {
    for (const Objective objective :
         {Objective::kForward, Objective::kBackward, Objective::kCost}) {
      PlanConfig config;
      config.planner = kind;
      config.objective = objective;
      config.dims = {96, 16, 2, 32};
      config.cost =
          CostModel{.block_ps = 500'000, .weight_bytes = 1000, .link_bytes_per_us = 100'000};
      const auto planner = make_planner(config);
      const std::vector<int32_t> resident(32, 5);
      Plan plan;
      PlanReport report;
      int64_t before = 0;
      for (size_t step = 0; step < steps.size(); ++step) {
        if (step == 1) before = test::num_allocations();
        planner->plan(steps[step], resident, plan, report);
      }
      EXPECT_EQ(test::num_allocations(), before)
          << planner_name(kind) << ", " << objective_name(objective);
    }
  }
}

}  // namespace
}  // namespace megaflux
