// Cases from public bug reports, on the heads of device ranks: the results are the host's, and what
// the report asks for is said beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "head/device_step.cuh"

namespace megaflux::test {
namespace {

WideIds ids_of(int32_t topk, std::vector<int64_t> ids, IdType type = IdType::kInt32) {
  WideIds wide;
  wide.topk = topk;
  wide.type = type;
  wide.num_tokens = static_cast<int32_t>(ids.size()) / topk;
  wide.ids = std::move(ids);
  return wide;
}

int64_t total_rows(const DeviceRig& rig, int32_t rank) {
  const auto loads = rig.download(rank, rig.fields().loads);
  return std::accumulate(loads.begin(), loads.end(), int64_t{0});
}

std::string error_of(const auto& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceHeadCases, IC_06_AFusedSharedExpertIsDroppedAndCounted) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(256, 2, 1, 9, 8);
  DeviceRig rig(config, all_on_device_0(2));
  Rng rng(6);
  std::vector<WideIds> step(2, draw_ids(rng, config, 8, IdType::kInt32, false));
  for (int32_t token = 0; token < 8; ++token) step[1].ids[token * 9 + 8] = 256;
  run_step(rig, config, step);
  EXPECT_EQ(rig.head(0).dropped_rows(0), 0);
  EXPECT_EQ(rig.head(0).dropped_rows(1), 8);
}

TEST(DeviceHeadCases, IC_11_AnIdTwiceCountsTwice) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(8, 2, 1, 4, 4);
  DeviceRig rig(config, all_on_device_0(2));
  run_step(rig, config, {ids_of(4, {3, 3, 7, 1}), ids_of(4, {})});
  EXPECT_EQ(rig.download(1, rig.fields().loads)[3], 2);
}

TEST(DeviceHeadCases, IC_12_PadsOfMinusOneCostNothing) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(16, 8, 1, 2, 512);
  DeviceRig rig(config, all_on_device_0(8));
  Rng rng(12);
  std::vector<WideIds> step(8, ids_of(2, std::vector<int64_t>(1024, -1)));
  for (int64_t& id : step[0].ids) id = static_cast<int64_t>(rng.below(16));
  run_step(rig, config, step);
  int64_t num_rows = 0;
  for (int32_t rank = 0; rank < 8; ++rank) {
    num_rows += rig.download(rank, rig.fields().work)[0].num_rows;
  }
  EXPECT_EQ(num_rows, 1024);
}

TEST(DeviceHeadCases, IC_14_UnevenAndEmptyRanks) {
  MF_NEEDS_GPUS(1);
  const HeadConfig few = head_config(24, 4, 1, 6, 4);
  DeviceRig four(few, all_on_device_0(4));
  std::vector<int64_t> owned;
  for (int i = 0; i < 24; ++i) owned.push_back(i % 6);
  run_step(four, few, {ids_of(6, {}), ids_of(6, owned), ids_of(6, owned), ids_of(6, owned)});
  EXPECT_EQ(total_rows(four, 0), 72);

  const HeadConfig many = head_config(16, 16, 1, 2, 1);
  DeviceRig sixteen(many, all_on_device_0(16));
  std::vector<WideIds> step(16, ids_of(2, {}));
  step[0] = ids_of(2, {5, 9});
  run_step(sixteen, many, step);
  EXPECT_EQ(total_rows(sixteen, 15), 2);
  // Tensors without elements have null pointers.
  const std::vector<RoutingView> empty(16, {.num_tokens = 0, .topk = 2});
  EXPECT_EQ(error_of([&] { sixteen.head(0).params(empty, {}); }), "");
}

TEST(DeviceHeadCases, IC_18_AnyNumbersOfTokens) {
  MF_NEEDS_GPUS(1);
  const int32_t most = gpu::by_size(8191, 40, 8191);
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{4095, 4095}, {5, 5}, {6, 6}, {1, 4096, 0, 17, 8191, 3, 2, 9}}) {
    const auto num_ranks = static_cast<int32_t>(tokens.size());
    const HeadConfig config = head_config(64, num_ranks, 2, 8, most, 128);
    DeviceRig rig(config, all_on_device_0(num_ranks));
    Rng rng(18);
    std::vector<WideIds> step;
    for (const int32_t count : tokens) {
      step.push_back(draw_ids(rng, config, std::min(count, most), IdType::kInt32, false));
    }
    run_step(rig, config, step);
  }
}

TEST(DeviceHeadCases, IC_19_TMaxIsNamed) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(64, 1, 0, 8, 65'536);
  DeviceRig rig(config, {0});
  const int32_t id = 0;
  const RoutingView routing = {.num_tokens = 65'537, .topk = 8, .topk_ids = &id};
  EXPECT_EQ(error_of([&] {
              rig.head(0).params({&routing, 1}, {});
            }),
            "rank 0: 65537 tokens exceed T_max = 65536 tokens a rank");
}

TEST(DeviceHeadCases, IC_20_ExpertsThatRanksDoNotShareEvenly) {
  MF_NEEDS_GPUS(1);
  Rng rng(20);
  for (const auto& [num_experts, num_ranks] :
       {std::pair{10, 4}, std::pair{160, 6}, std::pair{256, 6}, std::pair{7, 8}}) {
    SCOPED_TRACE(std::to_string(num_experts) + " experts, " + std::to_string(num_ranks) + " ranks");
    const HeadConfig config = head_config(num_experts, num_ranks, 2, 4, 150);
    DeviceRig rig(config, all_on_device_0(num_ranks));
    run_step(rig, config, draw_step(rng, config));
  }
}

TEST(DeviceHeadCases, IC_21_DomainsOfSixAndTenRanks) {
  MF_NEEDS_GPUS(1);
  HeadConfig config = head_config(48, 16, 2, 4, 100);
  for (int32_t rank = 0; rank < 16; ++rank) config.plan.domain_of.push_back(rank < 6 ? 0 : 1);
  DeviceRig rig(config, all_on_device_0(16));
  Rng rng(21);
  run_step(rig, config, draw_step(rng, config));
}

TEST(DeviceHeadCases, IC_22_AnyNumberOfExpertsChoicesAndRanks) {
  MF_NEEDS_GPUS(1);
  const std::vector<int32_t> topks = {1, 2, 4, 6, 8, 9, 16, 22, 32, 33};
  const std::vector<int32_t> ranks = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16};
  Rng rng(22);
  size_t i = 0;
  for (const int32_t num_experts : {1, 3, 10, 64, 96, 160, 384, 512, 896, 1024}) {
    for (int round = 0; round < gpu::by_size(3, 1, 3); ++round, ++i) {
      const int32_t topk = topks[i % topks.size()], num_ranks = ranks[i % ranks.size()];
      SCOPED_TRACE("E " + std::to_string(num_experts) + ", K " + std::to_string(topk) + ", P " +
                   std::to_string(num_ranks));
      const HeadConfig config = head_config(num_experts, num_ranks, 1, topk, 120);
      DeviceRig rig(config, all_on_device_0(num_ranks));
      run_step(rig, config, draw_step(rng, config));
      if (HasFailure()) return;
    }
  }
  for (const int32_t num_experts : {1025, 2048}) {
    EXPECT_EQ(
        error_of([&] {
          DeviceRig(head_config(num_experts, 2, 1, 2, 8), {0, 0});
        }),
        "num_experts: " + std::to_string(num_experts) + " on a device, at most 1024 are supported");
  }
  EXPECT_EQ(error_of([&] { DeviceRig(head_config(72, 72, 1, 2, 8), all_on_device_0(72)); }),
            "ranks: 72 on one device are outside [1, 66]");
}

TEST(DeviceHeadCases, IC_31_IC_66_ManyRunsUnderDelaysGiveTheSameBytes) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(32, 4, 2, 4, 400);
  DeviceRig rig(config, all_on_device_0(4));
  Rng rng(31);
  const std::vector<WideIds> step = draw_step(rng, config);
  run_step(rig, config, step);
  const HostStep host(config.plan, step);
  for (int run = 1; run <= gpu::by_size(1'000, 3, 1'000); ++run) {
    rig.group().set_delay_fuzz(run);
    // The ids stay what they were: whoever wrote to them would change the next run.
    rig.launch();
    if (run % 50 != 0) continue;
    rig.group().synchronize();
    expect_step(rig, host, step);
    if (HasFailure()) return;
    rig.poison();
  }
}

TEST(DeviceHeadCases, IC_36_ARankThatIsNotThere) {
  MF_NEEDS_GPUS(1);
  HeadConfig config = head_config(64, 8, 1, 2, 64);
  config.plan.active = {1, 1, 1, 0, 1, 1, 1, 1};
  DeviceRig rig(config, all_on_device_0(8));
  Rng rng(36);
  std::vector<WideIds> step = draw_step(rng, config);
  for (WideIds& rank : step) {
    for (int64_t& id : rank.ids) id = id >= 24 && id < 32 ? id - 24 : id;  // none of rank 3's
  }
  step[5] = ids_of(2, {0, 63});
  run_step(rig, config, step);
  EXPECT_EQ(rig.download(3, rig.fields().work)[0].num_rows, 0);
  step[5].ids[1] = 25;  // lives on rank 3
  rig.set_ids(step);
  rig.poison();
  rig.launch();
  rig.group().synchronize();
  for (int32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(rig.download(rank, rig.fields().result)[0].outcome, HeadOutcome::kNoLegalPlan);
    EXPECT_EQ(rig.download(rank, rig.fields().work)[0].num_parts, 0);
    const auto report = rig.download(rank, rig.fields().report);
    EXPECT_EQ(reinterpret_cast<const DevicePlanReport*>(report.data())->num_orphans, 1);
  }
}

TEST(DeviceHeadCases, IC_44_ExpertsAndLayersWithoutRows) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(32, 4, 2, 2, 200);
  DeviceRig rig(config, all_on_device_0(4));
  Rng rng(44);
  std::vector<WideIds> step = draw_step(rng, config);
  for (WideIds& rank : step) {
    for (int64_t& id : rank.ids) id &= ~int64_t{1};  // -1 becomes -2: dropped
  }
  run_step(rig, config, step);
  for (WideIds& rank : step) std::ranges::fill(rank.ids, -1);
  run_step(rig, config, step);
  EXPECT_EQ(total_rows(rig, 0), 0);
}

TEST(DeviceHeadCases, IC_46_OverloadedRanksMayHost) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(8, 8, 1, 1, 1440, 1);
  DeviceRig rig(config, all_on_device_0(8));
  constexpr int32_t kCounts[] = {600, 560, 120, 120, 20, 10, 10, 10};
  std::vector<WideIds> step(8, ids_of(1, {}));
  for (int32_t expert = 0, row = 0; expert < 8; ++expert) {
    for (int32_t i = 0; i < kCounts[expert]; ++i, ++row) step[row % 8].ids.push_back(expert);
  }
  for (WideIds& rank : step) rank.num_tokens = static_cast<int32_t>(rank.ids.size());
  run_step(rig, config, step);
  const auto plan = rig.download(0, rig.fields().plan);
  EXPECT_EQ(reinterpret_cast<const PlanHeader*>(plan.data())->max_blocks, 182);
}

TEST(DeviceHeadCases, IC_49_FromNoTokenToTMax) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(8, 4, 1, 2, 37);
  DeviceRig rig(config, all_on_device_0(4));
  Rng rng(49);
  std::vector<WideIds> step;
  for (const int32_t tokens : {0, 1, 36, 37}) {
    step.push_back(draw_ids(rng, config, tokens, IdType::kInt32, false));
  }
  // Pads that would all go to the first experts.
  step.back().num_valid = 20;
  std::fill(step.back().ids.begin() + 40, step.back().ids.end(), 1);
  run_step(rig, config, step);
}

TEST(DeviceHeadCases, IC_61_IdTypesGiveIdenticalPlans) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(24, 3, 2, 3, 128);
  DeviceRig rig(config, all_on_device_0(3));
  Rng rng(61);
  WideIds ids = draw_ids(rng, config, 128, IdType::kInt32, false);
  std::vector<std::vector<std::byte>> plans;
  for (const IdType type : {IdType::kInt16, IdType::kInt32, IdType::kInt64}) {
    ids.type = type;
    run_step(rig, config, {ids, ids, ids});
    plans.push_back(rig.download(0, rig.fields().plan));
  }
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_EQ(plans[0], plans[2]);
}

}  // namespace
}  // namespace megaflux::test
