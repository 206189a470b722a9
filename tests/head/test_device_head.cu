// What the head of a device drops, refuses and tells, replays of captured launches, and many
// launches back to back.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/jump_epochs_cuda.h"
#include "head/device_step.cuh"

namespace megaflux {
namespace {

using test::all_on_device_0;
using test::DeviceRig;
using test::draw_ids;
using test::draw_step;
using test::expect_step;
using test::head_config;
using test::HostStep;
using test::run_step;
using test::WideIds;

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

TEST(DeviceHead, ReplaysWithNewIdsAreAsEager) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(64, 4, 2, 4, 512, 16);
  DeviceRig rig(config, all_on_device_0(4));
  Rng rng(77);
  // T, type and pointers are captured; ids and num_valid_tokens change.
  std::vector<WideIds> step(4);
  const auto redraw = [&] {
    for (WideIds& rank : step) {
      rank = draw_ids(rng, config, 500, IdType::kInt32, true);
      rank.num_valid = static_cast<int32_t>(rng.below(520));
    }
  };
  redraw();
  rig.set_ids(step);
  cudaStream_t stream = rig.group().stream(0);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  MF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  rig.launch();
  MF_CUDA(cudaStreamEndCapture(stream, &graph));
  MF_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  std::vector<uint64_t> hashes;
  for (int replay = 0; replay < gpu::by_size(10, 3, 10); ++replay) {
    redraw();
    const HostStep host(config.plan, step);
    rig.set_ids(step);
    rig.poison();
    MF_CUDA(cudaGraphLaunch(exec, stream));
    MF_CUDA(cudaStreamSynchronize(stream));
    rig.group().check_sound();
    SCOPED_TRACE("replay " + std::to_string(replay));
    expect_step(rig, host, step);
    hashes.push_back(host.plan.hash());
    if (HasFailure()) break;
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
  MF_CUDA(cudaGraphExecDestroy(exec));
  MF_CUDA(cudaGraphDestroy(graph));
}

// Counts of a chunk that no step had for more than 2^31 launches must not pass for this one's.
TEST(DeviceHead, CountsThatWereLeftOverAreAwaited) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(48, 2, 1, 4, 1'000);
  DeviceRig rig(config, {0, 0});
  Rng rng(12);
  const auto draw = [&] { return draw_ids(rng, config, 1'000, IdType::kInt32, false); };
  rig.set_ids({draw(), draw()});
  rig.launch();
  for (const uint32_t num_launches : {0x80000010u, 0xfffffff0u}) {
    test::jump_epochs(rig.group(), num_launches, "head.chunk_counts");
    const std::vector<WideIds> step = {draw(), draw()};
    const HostStep host(config.plan, step);
    rig.set_ids(step);
    rig.poison();
    rig.group().set_delay_fuzz(num_launches);
    rig.launch();
    rig.group().synchronize();
    expect_step(rig, host, step);
  }
}

// Launches back to back under random delays, without a look in between; the last is checked.
void run_many(const std::vector<int32_t>& device_of, int num_launches) {
  const HeadConfig config = head_config(48, static_cast<int32_t>(device_of.size()), 1, 4, 300, 16);
  DeviceRig rig(config, device_of);
  Rng rng(11);
  const std::vector<WideIds> step = draw_step(rng, config);
  const HostStep host(config.plan, step);
  rig.set_ids(step);
  rig.poison();
  for (int i = 0; i < num_launches; ++i) {
    if (i % 1000 == 500) rig.group().set_delay_fuzz(i);
    if (i % 1000 == 600) rig.group().set_delay_fuzz(std::nullopt);
    rig.launch();
  }
  rig.group().synchronize();
  expect_step(rig, host, step);
}

TEST(DeviceHead, ManyLaunches) {
  MF_NEEDS_GPUS(1);
  run_many(all_on_device_0(4), gpu::by_size(2'000, 3, 10'000));
}

TEST(DeviceHeadSoak, ManyLaunches) {
  MF_NEEDS_GPUS(1);
  run_many(all_on_device_0(4), 10'000);
}

TEST(DeviceHeadSoak, ManyLaunchesOnTwoDevices) {
  MF_NEEDS_GPUS(2);
  run_many({0, 0, 1, 1}, 10'000);
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

}  // namespace
}  // namespace megaflux
