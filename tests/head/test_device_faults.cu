// Ranks that make another launch, stay away or tell no counts: every other rank's head ends, with
// an error that names the fault.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "head/device_step.cuh"

namespace megaflux::test {
namespace {

using namespace std::chrono_literals;

constexpr int32_t kRanks = 6;
constexpr int32_t kFaulty = 2;

// So many experts that a thread awaits several ranks together.
HeadConfig fault_config() {
  return head_config(300, kRanks, 1, 3, 200);
}

// One launch with the fault, and what the group says of it.
std::pair<ErrorCode, std::string> error_of(DeviceRig& rig, RankFault fault) {
  Rng rng(3);
  rig.set_ids(draw_step(rng, fault_config()));
  rig.poison();
  rig.launch_with_fault(fault, kFaulty);
  try {
    rig.group().synchronize();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "nothing was wrong"};
}

void expect_no_work(const DeviceRig& rig) {
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    if (rank == kFaulty) continue;
    const HeadResult result = rig.download(rank, rig.fields().result)[0];
    EXPECT_EQ(result.outcome, HeadOutcome::kNotEntered);
    EXPECT_EQ(rig.download(rank, rig.fields().work)[0].num_parts, 0);
    const auto plan = rig.download(rank, rig.fields().plan);
    EXPECT_EQ(reinterpret_cast<const PlanHeader*>(plan.data())->num_instances, 0);
  }
}

TEST(DeviceHeadFault, RanksThatDisagreeGoOn) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = fault_config();
  DeviceRig rig(config, all_on_device_0(kRanks));
  Rng rng(4);
  // An odd number of launches in between: both banks of counts are refused once.
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    const bool is_other_launch = round < 2;
    const auto [code, text] =
        error_of(rig, is_other_launch ? RankFault::kOtherLaunch : RankFault::kOtherConfig);
    EXPECT_EQ(code, ErrorCode::kDisagree);
    EXPECT_NE(
        text.find(is_other_launch ? "with op forward, rank 0 with op head" : "with config hash"),
        std::string::npos)
        << text;
    expect_no_work(rig);
    run_step(rig, config, draw_step(rng, config));
    if (round % 2 == 0) run_step(rig, config, draw_step(rng, config));
    if (HasFailure()) return;
  }
}

void expect_poisoned_then_recover(RankFault fault, const std::string& words) {
  const HeadConfig config = fault_config();
  DeviceRig rig(config, all_on_device_0(kRanks), {.deadline = gpu::by_size(200ms, 4'000ms, 200ms)});
  Rng rng(5);
  run_step(rig, config, draw_step(rng, config));
  const auto [code, text] = error_of(rig, fault);
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_NE(text.find(words), std::string::npos) << text;
  expect_no_work(rig);
  rig.group().recover();
  for (int step = 0; step < 3; ++step) run_step(rig, config, draw_step(rng, config));
}

TEST(DeviceHeadFault, IC_33_ARankThatStaysAwayIsNamed) {
  MF_NEEDS_GPUS(1);
  expect_poisoned_then_recover(RankFault::kStaysAway, "waiting for entry of rank 2");
}

TEST(DeviceHeadFault, IC_33_ARankThatTellsNoCountsIsNamed) {
  MF_NEEDS_GPUS(1);
  expect_poisoned_then_recover(RankFault::kTellsNoCounts, "waiting for rank_counts of rank 2");
}

}  // namespace
}  // namespace megaflux::test
