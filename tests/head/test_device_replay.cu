// Captured launches, launches across the wrap of the epochs, and many of them back to back.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "comm/jump_epochs_cuda.h"
#include "head/device_step.cuh"

namespace megaflux::test {
namespace {

// What a replay finds changed: T, type and pointers are captured.
struct Inputs {
  std::vector<WideIds> ids;
  std::vector<int32_t> resident;

  Inputs(Rng& rng, const HeadConfig& config) {
    for (int32_t rank = 0; rank < config.plan.dims.num_ranks; ++rank) {
      ids.push_back(draw_ids(rng, config, config.max_tokens, IdType::kInt32, true));
      ids.back().num_valid = static_cast<int32_t>(rng.below(config.max_tokens + 20));
    }
    // Slots hold some of the replicas that this step asks for.
    const HostStep host(config.plan, ids);
    for (const int32_t expert : host.plan.slot_expert()) {
      resident.push_back(rng.below(2) == 0 ? expert : -1);
    }
  }
  void give(DeviceRig& rig) const {
    rig.set_ids(ids);
    rig.set_residents(resident);
    rig.poison();
  }
};

std::vector<uint64_t> plan_hashes(const DeviceRig& rig) {
  std::vector<uint64_t> hashes;
  for (int32_t rank = 0; rank < 4; ++rank) {
    const auto plan = rig.download(rank, rig.fields().plan);
    hashes.push_back(reinterpret_cast<const PlanHeader*>(plan.data())->hash);
  }
  return hashes;
}

TEST(DeviceHead, IC_32_ReplaysWithNewInputsAreAsEager) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(64, 4, 2, 4, 500, 16);
  DeviceRig rig(config, all_on_device_0(4));
  Rng rng(77);
  std::vector<Inputs> inputs;
  for (int i = 0; i < gpu::by_size(10, 3, 10); ++i) inputs.emplace_back(rng, config);
  std::vector<std::vector<uint64_t>> eager, replayed;
  for (const Inputs& input : inputs) {
    input.give(rig);
    rig.launch();
    rig.group().synchronize();
    eager.push_back(plan_hashes(rig));
  }
  const gpu::CapturedLaunch captured = captured_launch(rig);
  size_t num_resident = 0;
  for (const Inputs& input : inputs) {
    SCOPED_TRACE("replay " + std::to_string(replayed.size()));
    const HostStep host(config.plan, input.ids, input.resident);
    num_resident += std::ranges::count(host.plan.slot_resident(), 1);
    input.give(rig);
    captured.replay();
    rig.group().synchronize();
    replayed.push_back(plan_hashes(rig));
    expect_step(rig, host, input.ids);
    EXPECT_EQ(replayed.back(), std::vector<uint64_t>(4, host.plan.hash()));
    if (HasFailure()) return;
  }
  EXPECT_EQ(replayed, eager);
  EXPECT_GT(num_resident, 0u);
  std::ranges::sort(eager);
  EXPECT_EQ(std::ranges::adjacent_find(eager), eager.end()) << "two steps have one plan";
}

// The count of valid tokens alone changes, and ids behind it are stale.
TEST(DeviceHead, IC_13_TokensBeyondTheValidOnesAreIgnored) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 2, 1, 4, 1024);
  DeviceRig rig(config, all_on_device_0(2));
  Rng rng(13);
  std::vector<WideIds> stale(2, draw_ids(rng, config, 1024, IdType::kInt32, false));
  for (WideIds& rank : stale) {
    for (size_t i = 300 * 4; i < rank.ids.size(); ++i)
      rank.ids[i] = 1'000'000 + static_cast<int64_t>(i);
    rank.num_valid = 300;
  }
  rig.set_ids(stale);
  const gpu::CapturedLaunch captured = captured_launch(rig);
  for (const int32_t num_valid : {300, 0, 7, 300}) {
    for (WideIds& rank : stale) rank.num_valid = num_valid;
    std::vector<WideIds> clean(2, stale[0]);
    for (WideIds& rank : clean) {
      rank.ids.resize(static_cast<size_t>(num_valid) * 4);
      rank.num_tokens = num_valid;
    }
    rig.set_ids(stale);
    rig.poison();
    captured.replay();
    rig.group().synchronize();
    SCOPED_TRACE(num_valid);
    expect_step(rig, HostStep(config.plan, clean), clean);
  }
}

TEST(DeviceHead, EpochsWrap) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(40, 3, 1, 3, 300);
  // Epoch 0 is that of the second launch, of the third, and of one in the middle.
  for (const uint32_t start : {0xfffffffeu, 0xfffffffdu, 0xfffffff4u}) {
    SCOPED_TRACE(start);
    DeviceRig rig(config, all_on_device_0(3), {.start_epoch = start});
    Rng rng(start);
    std::vector<WideIds> step;
    for (int rank = 0; rank < 3; ++rank) {
      step.push_back(draw_ids(rng, config, 300, IdType::kInt64, false));
    }
    rig.set_ids(step);
    const gpu::CapturedLaunch captured = captured_launch(rig);
    for (int launch = 0; launch < gpu::by_size(24, 6, 24); ++launch) {
      for (WideIds& rank : step) rank = draw_ids(rng, config, 300, IdType::kInt64, false);
      rig.set_ids(step);
      rig.poison();
      if (launch % 2 == 0) {
        rig.launch();
      } else {
        captured.replay();
      }
      rig.group().synchronize();
      SCOPED_TRACE("launch " + std::to_string(launch));
      expect_step(rig, HostStep(config.plan, step), step);
      EXPECT_EQ(rig.download(0, rig.fields().result)[0].epoch, start + 1 + launch);
      if (HasFailure()) return;
    }
  }
}

// Counts that were not written for more than 2^31 launches, as those of a chunk that no step had,
// must not pass for this one's.
TEST(DeviceHead, CountsThatWereLeftOverAreAwaited) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(48, 2, 1, 4, 1'000);
  DeviceRig rig(config, {0, 0});
  Rng rng(12);
  const auto draw = [&] { return draw_ids(rng, config, 1'000, IdType::kInt32, false); };
  rig.set_ids({draw(), draw()});
  rig.launch();
  const std::pair<uint32_t, std::string> jumps[] = {{0x80000010u, "head.chunk_counts"},
                                                    {0xfffffff0u, "head.chunk_counts"},
                                                    {0x80000010u, "head.rank_counts"},
                                                    {0xfffffff0u, "head.rank_counts"}};
  for (const auto& [num_launches, left_over] : jumps) {
    jump_epochs(rig.group(), num_launches, left_over);
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
  DeviceRig rig(config, device_of, {.start_epoch = 0u - static_cast<uint32_t>(num_launches / 2)});
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
  for (size_t rank = 0; rank < device_of.size(); ++rank) {
    EXPECT_EQ(rig.download(static_cast<int32_t>(rank), rig.fields().result)[0].epoch,
              static_cast<uint32_t>(num_launches - num_launches / 2));
  }
}

TEST(DeviceHead, ManyLaunches) {
  MF_NEEDS_GPUS(1);
  run_many(all_on_device_0(4), gpu::by_size(2'000, 3, 10'000));
}

TEST(DeviceHeadSoak, ManyLaunches) {
  MF_NEEDS_GPUS(1);
  run_many(all_on_device_0(4), 100'000);
}

TEST(DeviceHeadSoak, ManyLaunchesOnTwoDevices) {
  MF_NEEDS_GPUS(2);
  run_many({0, 0, 1, 1}, 100'000);
}

}  // namespace
}  // namespace megaflux::test
