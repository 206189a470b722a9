// Memory of the C ABI: no allocation per step after the first, and an allocation that fails
// anywhere is a status that leaves everything as it was.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "allocation/counted_allocation.h"
#include "megaflux/megaflux.h"

namespace {

using megaflux::test::FailingAllocations;
using megaflux::test::num_allocations;

constexpr int32_t kRows[] = {300, 60, 45, 300, 40, 45};
constexpr int32_t kOtherRows[] = {20, 700, 45, 10, 700, 600};

megaflux_step step_of(const int32_t* rows) {
  megaflux_step step{};
  step.struct_bytes = sizeof(step);
  step.rows = rows;
  step.num_rows = 6;
  return step;
}

megaflux_planner* make_planner() {
  megaflux_planner_config config{};
  EXPECT_EQ(megaflux_planner_config_init(&config, sizeof(config), nullptr), MEGAFLUX_OK);
  config.num_experts = 3;
  config.num_ranks = 2;
  config.replica_slots = 1;
  megaflux_planner* planner = nullptr;
  EXPECT_EQ(megaflux_planner_create(&config, &planner, nullptr), MEGAFLUX_OK);
  return planner;
}

megaflux_plan* make_plan() {
  megaflux_plan* plan = nullptr;
  EXPECT_EQ(megaflux_plan_create(&plan, nullptr), MEGAFLUX_OK);
  return plan;
}

std::string bytes_of(const megaflux_plan* plan) {
  const void* data = nullptr;
  size_t size = 0;
  if (megaflux_plan_bytes(plan, &data, &size, nullptr) != MEGAFLUX_OK) return "no plan";
  return {static_cast<const char*>(data), size};
}

// Calls with the first, second, ... allocation failing until a call gets through; every failed one
// must leave what `state` shows as it was. Returns the number of failed calls.
template <typename Call, typename State>
int fail_each_allocation(Call&& call, State&& state) {
  const std::string before = state();
  for (int64_t nth = 0;; ++nth) {
    megaflux_error error{};
    error.struct_bytes = sizeof(error);
    const megaflux_status status = [&] {
      const FailingAllocations failing(nth);
      return call(&error);
    }();
    if (status == MEGAFLUX_OK) return static_cast<int>(nth);
    EXPECT_EQ(status, MEGAFLUX_OUT_OF_MEMORY) << nth;
    EXPECT_STREQ(error.message, "out of memory");
    EXPECT_EQ(state(), before) << nth;
  }
}

TEST(CApiMemory, StepsAfterTheFirstAllocateNothing) {
  megaflux_planner* planner = make_planner();
  megaflux_plan* plan = make_plan();
  // Planner and plan swap their buffers: the second step fills the other half.
  for (int step = 0; step < 2; ++step) {
    const megaflux_step first = step_of(kOtherRows);
    ASSERT_EQ(megaflux_planner_plan(planner, &first, plan, nullptr), MEGAFLUX_OK);
  }
  const int64_t before = num_allocations();
  for (int step = 0; step < 20; ++step) {
    const megaflux_step next = step_of(step % 2 == 0 ? kRows : kOtherRows);
    ASSERT_EQ(megaflux_planner_plan(planner, &next, plan, nullptr), MEGAFLUX_OK);
  }
  EXPECT_EQ(num_allocations(), before);
  megaflux_plan_destroy(plan);
  megaflux_planner_destroy(planner);
}

TEST(CApiMemory, EveryFailedAllocationIsAStatus) {
  megaflux_planner_config config{};
  ASSERT_EQ(megaflux_planner_config_init(&config, sizeof(config), nullptr), MEGAFLUX_OK);
  config.num_experts = 3;
  config.num_ranks = 2;
  config.replica_slots = 1;
  megaflux_planner* planner = nullptr;
  megaflux_plan* plan = nullptr;
  EXPECT_GT(
      fail_each_allocation([&](auto* e) { return megaflux_planner_create(&config, &planner, e); },
                           [&] { return std::string(planner == nullptr ? "none" : "some"); }),
      2);
  EXPECT_GT(fail_each_allocation([&](auto* e) { return megaflux_plan_create(&plan, e); },
                                 [&] { return std::string(plan == nullptr ? "none" : "some"); }),
            0);
  const auto state = [&] { return bytes_of(plan); };
  megaflux_step step = step_of(kRows);
  EXPECT_GT(fail_each_allocation(
                [&](auto* e) { return megaflux_planner_plan(planner, &step, plan, e); }, state),
            2);
  const std::string first = state();
  megaflux_plan* other = make_plan();
  EXPECT_GT(fail_each_allocation(
                [&](auto* e) {
                  return megaflux_planner_adopt(planner, &step, first.data(), first.size(), other,
                                                e);
                },
                [&] { return bytes_of(other); }),
            2);
  int64_t loads[2] = {-1, -1};
  EXPECT_GT(fail_each_allocation(
                [&](auto* e) {
                  return megaflux_plan_copy_i64(plan, MEGAFLUX_LOAD_ROWS, loads, 2, nullptr, e);
                },
                [&] { return std::to_string(loads[0]); }),
            3);
  EXPECT_EQ(loads[0], 484);
  // A planner whose call failed plans as if nothing had been.
  megaflux_planner* fresh = make_planner();
  megaflux_plan* expected = make_plan();
  step = step_of(kOtherRows);
  ASSERT_EQ(megaflux_planner_plan(planner, &step, plan, nullptr), MEGAFLUX_OK);
  ASSERT_EQ(megaflux_planner_plan(fresh, &step, expected, nullptr), MEGAFLUX_OK);
  EXPECT_EQ(bytes_of(plan), bytes_of(expected));
  megaflux_plan_destroy(expected);
  megaflux_planner_destroy(fresh);
  megaflux_plan_destroy(other);
  megaflux_plan_destroy(plan);
  megaflux_planner_destroy(planner);
}

}  // namespace
