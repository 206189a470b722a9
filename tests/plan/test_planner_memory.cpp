// Planning allocates nothing after the first call.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "megaflux/base/rng.h"
#include "plan/planner_fixture.h"

namespace {
thread_local int64_t num_allocations = 0;

void* counted(std::size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

// Every form that the test program uses ends in these two pairs.
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace megaflux {
namespace {

TEST(PlannerMemory, no_allocation_after_the_first_call) {
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
        if (step == 1) before = num_allocations;
        planner->plan(steps[step], resident, plan, report);
      }
      EXPECT_EQ(num_allocations, before) << planner_name(kind) << ", " << objective_name(objective);
    }
  }
}

}  // namespace
}  // namespace megaflux
