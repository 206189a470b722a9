// Random steps of a group, and what must hold of the results of a launch: they are the host's, byte
// for byte.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "head/device_rig.cuh"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::test {

// Ids skewed to low experts; of 16 about one is -1 and, if `strays`, one is out of range.
inline WideIds draw_ids(Rng& rng, const HeadConfig& config, int32_t num_tokens, IdType type,
                        bool strays) {
  WideIds ids;
  ids.num_tokens = num_tokens;
  ids.topk = config.topk;
  ids.type = type;
  const int32_t num_experts = config.plan.dims.num_experts;
  const bool is_narrow = type == IdType::kInt16;
  for (int32_t i = 0; i < num_tokens * config.topk; ++i) {
    const auto kind = rng.below(16);
    int64_t id = static_cast<int64_t>(rng.uniform() * rng.uniform() * num_experts);
    if (kind == 0) id = -1;
    if (kind == 1 && strays) {
      const int64_t far[] = {
          num_experts,        -2, 32767, -32768, int64_t{1} << 31, (int64_t{1} << 32) + 1,
          -(int64_t{1} << 40)};
      id = far[rng.below(is_narrow ? 4 : type == IdType::kInt32 ? 4 : 7)];
    }
    ids.ids.push_back(id);
  }
  return ids;
}

// Every rank's ids of one step: types differ, numbers of tokens differ, one rank in four has none.
inline std::vector<WideIds> draw_step(Rng& rng, const HeadConfig& config, bool strays = false) {
  constexpr IdType kTypes[] = {IdType::kInt16, IdType::kInt32, IdType::kInt64};
  std::vector<WideIds> step;
  for (int32_t rank = 0; rank < config.plan.dims.num_ranks; ++rank) {
    const auto most = static_cast<uint32_t>(config.max_tokens) + 1;
    const auto num_tokens = rng.below(4) == 0 ? 0 : static_cast<int32_t>(rng.below(most));
    step.push_back(draw_ids(rng, config, num_tokens, kTypes[rng.below(3)], strays));
    if (rng.below(2) == 0) {
      step.back().num_valid = static_cast<int32_t>(rng.below(most + 20)) - 10;
    }
  }
  return step;
}

inline void expect_routes(const DeviceRig& rig, const HostStep& host, int32_t rank) {
  const Routing& routing = host.routings[rank];
  const auto rows = host.loads.rows_of_source(rank);
  std::vector<int32_t> offsets(rows.size() + 1);
  std::vector<int32_t> pairs(std::accumulate(rows.begin(), rows.end(), size_t{0}));
  build_route_list(routing.view(), rows, offsets, pairs);
  EXPECT_EQ(rig.download(rank, rig.fields().routes.offsets), offsets);
  std::vector<int32_t> seen = rig.download(rank, rig.fields().routes.pairs);
  for (size_t i = pairs.size(); i < seen.size(); ++i) ASSERT_EQ(seen[i], int32_t(0xcdcdcdcd));
  seen.resize(pairs.size());
  EXPECT_EQ(seen, pairs);
}

inline void expect_row_map(const DeviceRig& rig, const HostStep& host, int32_t rank) {
  const int32_t num_ranks = host.loads.num_ranks(), num_experts = host.loads.num_experts();
  std::vector<int32_t> loads, begins(num_experts), offsets;
  for (int32_t p = 0; p < num_ranks; ++p) {
    offsets.push_back(0);
    for (int32_t e = 0; e < num_experts; ++e) {
      const int32_t rows = host.loads.rows(p, e);
      loads.push_back(rows);
      begins.push_back(begins[begins.size() - num_experts] + rows);
      offsets.push_back(offsets.back() + rows);
    }
  }
  EXPECT_EQ(rig.download(rank, rig.fields().loads), loads);
  EXPECT_EQ(rig.download(rank, rig.fields().source_begin), begins);
  EXPECT_EQ(rig.download(rank, rig.fields().route_offsets), offsets);
}

inline void expect_work(const DeviceRig& rig, const HostStep& host, int32_t rank, PartOrder order) {
  const std::vector<std::byte> plan = rig.download(rank, rig.fields().plan);
  EXPECT_TRUE(std::ranges::equal(plan, host.plan.bytes()));
  WorkList work;
  work.assign(host.plan, host.loads, rank, order);
  const WorkListHeader header = rig.download(rank, rig.fields().work)[0];
  EXPECT_EQ(header.rank, rank);
  ASSERT_EQ(header.num_parts, static_cast<int32_t>(work.parts().size()));
  EXPECT_EQ(header.num_tiles, work.num_tiles());
  EXPECT_EQ(header.num_rows, work.num_rows());
  EXPECT_EQ(header.num_owned, std::ranges::count(host.plan.owner_of(), rank));
  const std::vector<Part> parts = rig.download(rank, rig.fields().parts);
  for (int32_t i = 0; i < header.num_parts; ++i) {
    const Part& part = work.parts()[i];
    const int32_t expected[] = {part.expert,      part.weight_slot, part.is_replica,
                                part.first_block, part.num_blocks,  part.first_row,
                                part.num_rows,    part.first_tile,  part.num_tiles};
    static_assert(sizeof(expected) == sizeof(Part));  // padding is zero
    ASSERT_EQ(std::memcmp(&parts[i], expected, sizeof(Part)), 0) << "part " << i;
  }
}

// All of a launch, on every rank.
inline void expect_step(const DeviceRig& rig, const HostStep& host, const std::vector<WideIds>& ids,
                        PartOrder order = PartOrder::kOwnedFirst) {
  for (int32_t rank = 0; rank < host.loads.num_ranks(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    expect_routes(rig, host, rank);
    expect_row_map(rig, host, rank);
    expect_work(rig, host, rank, order);
    const HeadResult result = rig.download(rank, rig.fields().result)[0];
    EXPECT_EQ(result.outcome, HeadOutcome::kPlanned);
    EXPECT_EQ(result.dropped_rows, ids[rank].num_dropped(host.loads.num_experts()));
  }
}

// Half of the slots hold an expert of another rank, no rank one twice.
inline std::vector<int32_t> draw_residents(Rng& rng, const PlanConfig& config) {
  const PlanDims& dims = config.dims;
  const std::vector<int32_t> owner_of = contiguous_owners(dims.num_experts, dims.num_ranks);
  std::vector<int32_t> resident;
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    const auto first = resident.end() - resident.begin();
    for (int32_t slot = 0; slot < dims.replica_slots; ++slot) {
      const auto expert = static_cast<int32_t>(rng.below(static_cast<uint32_t>(dims.num_experts)));
      const bool may =
          rng.below(2) == 0 && owner_of[expert] != rank &&
          std::find(resident.begin() + first, resident.end(), expert) == resident.end();
      resident.push_back(may ? expert : -1);
    }
  }
  return resident;
}

// One step, eagerly, from poisoned results.
inline void run_step(DeviceRig& rig, const HeadConfig& config, const std::vector<WideIds>& ids,
                     PartOrder order = PartOrder::kOwnedFirst,
                     const std::vector<int32_t>& resident = {}) {
  const HostStep host(config.plan, ids, resident);
  rig.set_ids(ids);
  rig.set_residents(resident);
  rig.poison();
  rig.banks().poison(rig.group());
  rig.launch(order);
  rig.group().synchronize();
  expect_step(rig, host, ids, order);
  rig.banks().expect_cleared_by(rig.group(), rig.download(0, rig.fields().result)[0].epoch);
}

inline std::vector<int32_t> all_on_device_0(int32_t num_ranks) {
  return std::vector<int32_t>(num_ranks, 0);
}

}  // namespace megaflux::test
