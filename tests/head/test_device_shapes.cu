// The head of every rank on devices gives what the host's functions give, whatever the shape and
// whatever the router says.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "head/device_step.cuh"
#include "megaflux/comm/row_map_device.cuh"

namespace megaflux::test {
namespace {

struct DeviceCase {
  std::string name;
  int32_t num_experts = 16;
  int32_t num_ranks = 2;
  int32_t slots = 1;
  int32_t topk = 4;
  int32_t max_tokens = 256;
  int32_t block_rows = 16;
  int32_t max_ctas = 132;
  PlannerKind planner = PlannerKind::kMegaflux;
};

HeadConfig config_of(const DeviceCase& c) {
  HeadConfig config =
      head_config(c.num_experts, c.num_ranks, c.slots, c.topk, c.max_tokens, c.block_rows);
  config.plan.planner = c.planner;
  return config;
}

class DeviceHeadTest : public ::testing::TestWithParam<DeviceCase> {};

TEST_P(DeviceHeadTest, GivesWhatTheHostGives) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = config_of(GetParam());
  DeviceRig rig(config, all_on_device_0(GetParam().num_ranks), {.max_ctas = GetParam().max_ctas});
  Rng rng(41);
  for (int step = 0; step < gpu::by_size(6, 2, 6); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const PartOrder order = step % 2 == 0 ? PartOrder::kOwnedFirst : PartOrder::kReplicatedFirst;
    const bool has_residents = step % 3 == 2;
    run_step(rig, config, draw_step(rng, config, step % 3 == 1), order,
             has_residents ? draw_residents(rng, config.plan) : std::vector<int32_t>());
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DeviceHeadTest,
    ::testing::Values(
        DeviceCase{.name = "small"}, DeviceCase{.name = "one_rank", .num_ranks = 1},
        DeviceCase{.name = "one_expert", .num_experts = 1, .slots = 0, .topk = 1},
        DeviceCase{.name = "k64", .num_experts = 65, .topk = 64, .max_tokens = 77},
        DeviceCase{.name = "k1", .num_experts = 33, .topk = 1, .max_tokens = 2111},
        DeviceCase{.name = "odd",
                   .num_experts = 131,
                   .num_ranks = 3,
                   .topk = 5,
                   .max_tokens = 1009,
                   .block_rows = 7},
        DeviceCase{.name = "e1023", .num_experts = 1023, .topk = 9, .max_tokens = 1500},
        DeviceCase{
            .name = "e1024", .num_experts = 1024, .topk = 8, .max_tokens = 1024, .block_rows = 128},
        DeviceCase{.name = "rows", .num_experts = 40, .num_ranks = 5, .slots = 2, .block_rows = 1},
        DeviceCase{.name = "paper", .num_ranks = 4, .slots = 2, .planner = PlannerKind::kPaper},
        DeviceCase{.name = "quota", .num_ranks = 4, .slots = 2, .planner = PlannerKind::kQuota},
        DeviceCase{.name = "fixed", .num_ranks = 3, .planner = PlannerKind::kFixed},
        DeviceCase{.name = "eight_ranks",
                   .num_experts = 128,
                   .num_ranks = 8,
                   .slots = 2,
                   .topk = 8,
                   .max_tokens = 512},
        DeviceCase{.name = "two_ctas_a_rank",
                   .num_experts = 96,
                   .num_ranks = 9,
                   .topk = 3,
                   .max_tokens = 700,
                   .max_ctas = 2},
        DeviceCase{.name = "sixty_ranks",
                   .num_experts = 256,
                   .num_ranks = 60,
                   .topk = 6,
                   .max_tokens = 120}),
    [](const auto& test_case) { return test_case.param.name; });

TEST(DeviceHead, FewAndManyTokens) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(128, 2, 2, 8, 8192, 128);
  DeviceRig rig(config, all_on_device_0(2));
  Rng rng(5);
  for (const int32_t num_tokens : {0, 1, 31, 33, 4095, 8192}) {
    if (gpu::size() == gpu::Size::kSanitize && num_tokens > 33) break;
    SCOPED_TRACE(num_tokens);
    run_step(rig, config,
             {draw_ids(rng, config, num_tokens, IdType::kInt32, false),
              draw_ids(rng, config, std::min(num_tokens, 1), IdType::kInt64, false)});
  }
}

TEST(DeviceHead, EveryTokenPicksTheSameExperts) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(32, 2, 1, 4, 3000, 128);
  DeviceRig rig(config, all_on_device_0(2));
  std::vector<WideIds> step(2);
  for (WideIds& rank : step) {
    rank.num_tokens = 3000;
    rank.topk = 4;
    rank.type = IdType::kInt16;
    for (int32_t i = 0; i < 12000; ++i) rank.ids.push_back(i % 4 == 3 ? 0 : i % 4);
  }
  run_step(rig, config, step);
}

// One CTA an expert: where each of its rows stands.
__global__ void locate_rows_kernel(RowMapView map, const int32_t* first_row, RoutePlace* places) {
  const auto expert = static_cast<int32_t>(blockIdx.x);
  const int32_t begin = first_row[expert], end = first_row[expert + 1];
  for (int32_t row = static_cast<int32_t>(threadIdx.x); row < end - begin; row += blockDim.x) {
    places[begin + row] = locate_row(map, expert, row);
  }
}

TEST(DeviceHead, RowMapsLeadToTheRowsOfTheGlobalOrder) {
  MF_NEEDS_GPUS(1);
  const HeadConfig config = head_config(37, 5, 1, 3, 200);
  DeviceRig rig(config, all_on_device_0(5));
  Rng rng(3);
  const std::vector<WideIds> step = draw_step(rng, config);
  run_step(rig, config, step);
  const HostStep host(config.plan, step);
  std::vector<int32_t> first_row = {0};
  for (const int32_t rows : host.loads.totals()) first_row.push_back(first_row.back() + rows);
  const gpu::DeviceArray<int32_t> first_rows{std::span<const int32_t>(first_row)};
  const gpu::DeviceArray<RoutePlace> places(first_row.back());
  const RowMapView map = {rig.group().heap().at(2, rig.fields().source_begin),
                          rig.group().heap().at(2, rig.fields().route_offsets), 5, 37};
  locate_rows_kernel<<<37, 64>>>(map, first_rows.data(), places.data());
  MF_CUDA(cudaGetLastError());
  std::vector<std::vector<int32_t>> pairs;
  for (int32_t rank = 0; rank < 5; ++rank) {
    pairs.push_back(rig.download(rank, rig.fields().routes.pairs));
  }
  size_t row = 0;
  const std::vector<RoutePlace> seen = places.download();
  for (int32_t expert = 0; expert < 37; ++expert) {
    for (int32_t source = 0; source < 5; ++source) {
      const std::vector<int32_t>& ids = host.routings[source].topk_ids;
      for (int32_t pair = 0; pair < static_cast<int32_t>(ids.size()); ++pair) {
        if (ids[pair] != expert) continue;
        ASSERT_LT(row, seen.size());
        ASSERT_EQ(seen[row].source, source);
        ASSERT_EQ(pairs[source][seen[row].index], pair);
        ++row;
      }
    }
  }
  EXPECT_EQ(row, seen.size());
}

TEST(DeviceHead, RanksOfTwoDevices) {
  MF_NEEDS_GPUS(2);
  for (const std::vector<int32_t>& device_of :
       {std::vector<int32_t>{0, 1}, {0, 0, 0, 0, 1, 1, 1, 1}, {1, 0, 1}}) {
    HeadConfig config = head_config(160, static_cast<int32_t>(device_of.size()), 2, 8, 2048, 128);
    DeviceRig rig(config, device_of);
    Rng rng(2);
    for (int step = 0; step < gpu::by_size(10, 2, 10); ++step) {
      SCOPED_TRACE(std::to_string(device_of.size()) + " ranks, step " + std::to_string(step));
      run_step(rig, config, draw_step(rng, config, step == 3));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace megaflux::test
