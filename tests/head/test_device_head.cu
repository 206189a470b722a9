// What the head of a device drops, refuses and tells, replays of captured launches, and many
// launches back to back.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "head/device_step.cuh"

namespace megaflux::test {
namespace {

TEST(DeviceHead, StraysAreDroppedCountedAndToldOnce) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 2, 1, 4, 64);
  DeviceRig rig(config, all_on_device_0(2));
  Rng rng(8);
  std::vector<WideIds> step = {draw_ids(rng, config, 64, IdType::kInt64, false),
                               draw_ids(rng, config, 64, IdType::kInt64, true)};
  run_step(rig, config, step);
  const int64_t dropped = step[1].num_dropped(16);
  ASSERT_GT(dropped, 0);
  EXPECT_EQ(rig.head(0).dropped_rows(0), 0);
  EXPECT_EQ(rig.head(0).dropped_rows(1), dropped);
  try {
    rig.head(0).check();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "rank 1: " + std::to_string(dropped) +
                                " rows were dropped: topk_ids outside [-1, 16)");
  }
  rig.head(0).check();
  run_step(rig, config, step);
  EXPECT_EQ(rig.head(0).dropped_rows(1), 2 * dropped);
}

TEST(DeviceHead, WithoutALegalPlanThereIsNoWork) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 3, 1, 2, 64);
  DeviceRig rig(config, all_on_device_0(3));
  Rng rng(9);
  rig.set_ids(draw_step(rng, config));
  rig.poison();
  rig.launch_refusing(HeadOutcome::kNoLegalPlan);
  rig.group().synchronize();
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(rig.download(rank, rig.fields().result)[0].outcome, HeadOutcome::kNoLegalPlan);
    const WorkListHeader work = rig.download(rank, rig.fields().work)[0];
    EXPECT_EQ(work.num_parts + work.num_tiles, 0);
    const auto plan = rig.download(rank, rig.fields().plan);
    EXPECT_TRUE(std::all_of(plan.begin(), plan.begin() + sizeof(PlanHeader),
                            [](std::byte value) { return value == std::byte{0}; }));
  }
  run_step(rig, config, draw_step(rng, config));
}

TEST(DeviceHead, OrphansAreAnOutcomeOnEveryRank) {
  MF_NEEDS_GPUS(1);
  HeadConfig config = head_config(16, 4, 1, 2, 64);
  config.plan.active = {1, 1, 0, 1};
  DeviceRig rig(config, all_on_device_0(4));
  std::vector<WideIds> step(4);
  for (WideIds& rank : step) {
    rank.num_tokens = 32;
    rank.topk = 2;
    for (int32_t i = 0; i < 64; ++i) rank.ids.push_back(i % 8);  // none of rank 2's
  }
  run_step(rig, config, step);
  step[3].ids[5] = 9;  // lives on rank 2
  rig.set_ids(step);
  rig.launch();
  rig.group().synchronize();
  for (int32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(rig.download(rank, rig.fields().result)[0].outcome, HeadOutcome::kNoLegalPlan);
    EXPECT_EQ(rig.download(rank, rig.fields().work)[0].num_parts, 0);
  }
}

TEST(DeviceHead, TooManyRowsAreToldOnce) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 1, 0, 2, 64);
  DeviceRig rig(config, {0});
  Rng rng(10);
  rig.set_ids(draw_step(rng, config));
  rig.launch_refusing(HeadOutcome::kTooManyRows);
  rig.group().synchronize();
  EXPECT_EQ(rig.download(0, rig.fields().work)[0].num_parts, 0);
  EXPECT_THROW(rig.head(0).check(), Error);
  rig.head(0).check();
}

TEST(DeviceHead, WhatALaunchIsGivenIsChecked) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 1, 0, 2, 8);
  DeviceRig rig(config, {0});
  const int32_t id = 0;
  const auto message = [&](const RoutingView& routing) -> std::string {
    try {
      rig.head(0).params({&routing, 1}, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({.num_tokens = 9, .topk = 2, .topk_ids = &id}),
            "rank 0: 9 tokens exceed T_max = 8 tokens a rank");
  EXPECT_EQ(message({.num_tokens = 1, .topk = 3, .topk_ids = &id}),
            "rank 0: topk: 3, the session has 2");
  EXPECT_EQ(message({.num_tokens = -1, .topk = 2, .topk_ids = &id}),
            "rank 0: num_tokens: -1 is negative");
  EXPECT_EQ(message({.num_tokens = 1, .topk = 2}), "rank 0: topk_ids is null with 1 tokens");
  EXPECT_EQ(message({.num_tokens = 0, .topk = 2}), "");
  Layout layout;
  EXPECT_THROW(add_device_head_fields(layout, head_config(1025, 1, 0, 2, 8), {.max_ctas = 4}),
               Error);
  EXPECT_THROW(add_device_head_fields(layout, config, {.max_ctas = 1}), Error);
}

// Ranks compare the head's configuration: whatever else a planner was made with is refused.
TEST(DeviceHead, APlannerThatAnswersToAnotherConfigurationIsRefused) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 2, 1, 2, 64);
  DeviceRig rig(config, all_on_device_0(2));
  Rng rng(12);
  rig.set_ids(draw_step(rng, config));
  const auto message = [&](const PlanConfig& plan, int64_t max_rows) -> std::string {
    const DevicePlanner planner(plan, 0, max_rows);
    try {
      rig.launch_with(planner);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(max_step_rows(config), 256);
  EXPECT_EQ(message(config.plan, 255),
            "planner: made for max_rows 255, the head's max_step_rows is 256");
  PlanConfig other = config.plan;
  other.slack_ppm = 1;
  EXPECT_NE(message(other, 256).find("planner: made with another configuration than the head's"),
            std::string::npos);
  other = config.plan;
  other.dims.replica_slots = 2;
  EXPECT_NE(
      message(other, 256).find("planner: made for E 16, P 2, s 2, the head's are 16, 2 and 1"),
      std::string::npos);
  other = config.plan;
  other.owner_of = contiguous_owners(16, 2);  // what an empty table stands for
  EXPECT_EQ(message(other, 256), "");
  rig.group().synchronize();
}

}  // namespace
}  // namespace megaflux::test
