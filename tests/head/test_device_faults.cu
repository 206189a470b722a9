// Ranks that make another launch, stay away or tell no counts: every other rank's head ends, with
// an error that names the fault; launches behind it touch nothing; and after recover() all is right
// again.
#include <gtest/gtest.h>

#include <algorithm>
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

RigOptions fault_options(int32_t max_ctas = 132) {
  return {.max_ctas = max_ctas, .deadline = gpu::by_size(200ms, 4'000ms, 200ms)};
}

// What the group says of the launches so far.
std::pair<ErrorCode, std::string> error_of(DeviceRig& rig) {
  try {
    rig.group().synchronize();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "nothing was wrong"};
}

// One launch with the fault, and what the group says of it.
std::pair<ErrorCode, std::string> error_with(DeviceRig& rig, RankFault fault) {
  Rng rng(3);
  rig.set_ids(draw_step(rng, fault_config()));
  rig.poison();
  rig.launch_with_fault(fault, kFaulty);
  return error_of(rig);
}

void expect_no_work(const DeviceRig& rig, int32_t rank) {
  const HeadResult result = rig.download(rank, rig.fields().result)[0];
  EXPECT_EQ(result.outcome, HeadOutcome::kNotEntered);
  EXPECT_EQ(rig.download(rank, rig.fields().work)[0].num_parts, 0);
  const auto plan = rig.download(rank, rig.fields().plan);
  EXPECT_EQ(reinterpret_cast<const PlanHeader*>(plan.data())->num_instances, 0);
}

void expect_no_work_but_of(const DeviceRig& rig, int32_t faulty) {
  for (int32_t rank = 0; rank < rig.num_ranks(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    if (rank != faulty) expect_no_work(rig, rank);
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
    rig.banks().poison(rig.group());
    const auto [code, text] =
        error_with(rig, is_other_launch ? RankFault::kOtherLaunch : RankFault::kOtherConfig);
    EXPECT_EQ(code, ErrorCode::kDisagree);
    EXPECT_NE(
        text.find(is_other_launch ? "with op forward, rank 0 with op head" : "with config hash"),
        std::string::npos)
        << text;
    expect_no_work_but_of(rig, kFaulty);
    rig.banks().expect_cleared_by(rig.group(), rig.download(0, rig.fields().result)[0].epoch);
    run_step(rig, config, draw_step(rng, config));
    if (round % 2 == 0) run_step(rig, config, draw_step(rng, config));
    if (HasFailure()) return;
  }
}

void expect_poisoned_then_recover(RankFault fault, const std::string& words) {
  const HeadConfig config = fault_config();
  DeviceRig rig(config, all_on_device_0(kRanks), fault_options());
  Rng rng(5);
  run_step(rig, config, draw_step(rng, config));
  const auto [code, text] = error_with(rig, fault);
  EXPECT_EQ(code, ErrorCode::kTimeout);
  EXPECT_NE(text.find(words), std::string::npos) << text;
  expect_no_work_but_of(rig, kFaulty);
  rig.group().recover();
  for (int step = 0; step < 3; ++step) run_step(rig, config, draw_step(rng, config));
}

TEST(DeviceHeadFault, IC_33_ARankThatStaysAwayIsNamed) {
  MF_NEEDS_GPUS(1);
  MF_NEEDS_REAL_TIME();
  expect_poisoned_then_recover(RankFault::kStaysAway, "waiting for entry of rank 2");
}

TEST(DeviceHeadFault, IC_33_ARankThatTellsNoCountsIsNamed) {
  MF_NEEDS_GPUS(1);
  MF_NEEDS_REAL_TIME();
  expect_poisoned_then_recover(RankFault::kTellsNoCounts, "waiting for rank_counts of rank 2");
}

// Nothing but result, work list and the plan's header, which say that there is no work.
void expect_untouched(const DeviceRig& rig, int32_t rank) {
  const auto expect_rubbish = [&](const char* name, Field<int32_t> field) {
    const std::vector<int32_t> seen = rig.download(rank, field);
    EXPECT_EQ(std::ranges::count(seen, int32_t(0xcdcdcdcd)), static_cast<ptrdiff_t>(seen.size()))
        << name << " of rank " << rank << " was written";
  };
  const DeviceHeadFields& fields = rig.fields();
  expect_rubbish("pairs", fields.routes.pairs);
  expect_rubbish("offsets", fields.routes.offsets);
  expect_rubbish("loads", fields.loads);
  expect_rubbish("source_begin", fields.source_begin);
  expect_rubbish("route_offsets", fields.route_offsets);
  expect_no_work(rig, rank);
}

// Peers may still read the list of a launch that was given up. No host stops a replay, so heads
// come behind it whenever the fault is seen.
void expect_silence_then_recover(RankFault fault) {
  const HeadConfig config = fault_config();
  DeviceRig rig(config, all_on_device_0(kRanks), fault_options());
  Rng rng(6);
  const std::vector<WideIds> ids = draw_step(rng, config);
  run_step(rig, config, ids);
  const gpu::CapturedLaunch captured = captured_launch(rig);
  EXPECT_EQ(error_with(rig, fault).first, ErrorCode::kTimeout);
  rig.set_ids(ids);
  const auto epoch_of = [&](int32_t rank) {
    return rig.download(rank, rig.fields().result)[0].epoch;
  };
  const uint32_t given_up = epoch_of(0);
  // The second counts its CTAs in a bank that the first, a silent one, has cleared: or no epoch
  // moves on behind it.
  for (uint32_t replay = 0; replay < 3; ++replay) {
    SCOPED_TRACE("replay " + std::to_string(replay));
    rig.poison();
    captured.replay();
    rig.synchronize();
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      // The faulty rank has seen no failure before the first.
      if (rank != kFaulty || replay > 0) expect_untouched(rig, rank);
      if (rank != kFaulty) EXPECT_EQ(epoch_of(rank), given_up + 1 + replay) << "rank " << rank;
    }
  }
  EXPECT_EQ(error_of(rig).first, ErrorCode::kTimeout);
  rig.group().recover();
  rig.poison();
  captured.replay();
  rig.group().synchronize();
  expect_step(rig, HostStep(config.plan, ids), ids);
  run_step(rig, config, draw_step(rng, config));
}

TEST(DeviceHeadFault, BehindARankThatStaysAwayNoRoutesAreSorted) {
  MF_NEEDS_GPUS(1);
  expect_silence_then_recover(RankFault::kStaysAway);
}

TEST(DeviceHeadFault, BehindARankThatTellsNoCountsNoRoutesAreSorted) {
  MF_NEEDS_GPUS(1);
  MF_NEEDS_REAL_TIME();
  expect_silence_then_recover(RankFault::kTellsNoCounts);
}

// The planner that users get, with the lanes for 33 to 64 ranks and two CTAs a rank: the one that
// waits for counts is to plan, with the threads and the shared memory that this takes.
class DeviceHeadPlannerFault : public ::testing::TestWithParam<Objective> {};

TEST_P(DeviceHeadPlannerFault, FortyRanksRecoverFromOneThatIsLost) {
  MF_NEEDS_GPUS(1);
  MF_NEEDS_REAL_TIME();
  constexpr int32_t kMany = 40;
  HeadConfig config = head_config(128, kMany, 2, 4, 150);
  config.plan.objective = GetParam();
  // Read where costs are the objective: a replica takes as long as a block.
  config.plan.cost =
      CostModel{.block_ps = 1'000'000, .weight_bytes = 1'000, .link_bytes_per_us = 1'000};
  DeviceRig rig(config, all_on_device_0(kMany), fault_options(2));
  ASSERT_EQ(rig.head(0).num_ctas(), 2);
  Rng rng(7);
  run_step(rig, config, draw_step(rng, config));
  for (const auto& [fault, words] :
       {std::pair{RankFault::kStaysAway, "waiting for entry of rank 39"},
        std::pair{RankFault::kTellsNoCounts, "waiting for rank_counts of rank 39"}}) {
    SCOPED_TRACE(words);
    rig.set_ids(draw_step(rng, config));
    rig.poison();
    rig.launch_without_last(fault);
    const auto [code, text] = error_of(rig);
    EXPECT_EQ(code, ErrorCode::kTimeout);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    expect_no_work_but_of(rig, kMany - 1);
    EXPECT_THROW(rig.launch(), Error);
    rig.group().recover();
    for (int step = 0; step < 3; ++step) {
      run_step(rig, config, draw_step(rng, config));
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Objectives, DeviceHeadPlannerFault,
                         ::testing::Values(Objective::kForward, Objective::kCost),
                         [](const auto& objective) {
                           return std::string(objective_name(objective.param));
                         });

}  // namespace
}  // namespace megaflux::test
