// The tables that a forward makes at its start, from any list and any plan: those of the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/gpu_test.cuh"
#include "megaflux/base/rng.h"
#include "megaflux/layer/mega/slot_table_device.cuh"
#include "megaflux/layer/mega/unit_table_device.cuh"
#include "megaflux/moe/plan.h"

namespace megaflux::test {
namespace {

using mega::kNumThreads;

__device__ DeviceRank rank_at(const DeviceContext& context, std::byte* base) {
  return {.group = context, .base = base};
}

__global__ void __launch_bounds__(kNumThreads)
    build_units_kernel(const __grid_constant__ DeviceContext context,
                       const __grid_constant__ ForwardParams params, std::byte* base) {
  __shared__ mega::UnitScratch scratch;
  const MegaRank rank = {.space = base};
  mega::build_units(rank_at(context, base), params, rank, scratch);
}

__global__ void __launch_bounds__(kNumThreads)
    note_slots_kernel(const __grid_constant__ DeviceContext context,
                      const __grid_constant__ PlannedFields planned, Field<int32_t> slot_experts,
                      std::byte* base) {
  mega::note_slots(rank_at(context, base), planned, slot_experts);
}

template <typename T>
void put(std::vector<std::byte>& memory, Field<T> field, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  std::ranges::copy(bytes, memory.begin() + static_cast<ptrdiff_t>(field.offset));
}

template <typename T>
std::vector<T> taken(const gpu::DeviceArray<std::byte>& memory, Field<T> field) {
  const std::vector<std::byte> bytes = memory.download();
  const auto* const first = reinterpret_cast<const T*>(bytes.data() + field.offset);
  return {first, first + field.count};
}

// Runs the kernel over `parts` and compares every byte that it should write, and one that it
// should not.
void expect_units(const std::vector<Part>& parts, int32_t unit_tiles) {
  std::vector<Unit> expected;
  WorkListHeader header = {.num_parts = static_cast<int32_t>(parts.size())};
  for (const Part& part : parts) {
    const int32_t count = num_units_of(part.num_tiles, unit_tiles);
    for (int32_t u = 0; u < count; ++u) expected.push_back(unit_of(part, count, u));
    header.num_tiles += part.num_tiles;
  }
  const auto num_units = static_cast<int32_t>(expected.size());
  expected.push_back({.first_tile = header.num_tiles});
  Layout layout;
  ForwardParams params;
  params.unit_tiles = unit_tiles;
  params.planned.work = layout.add<WorkListHeader>("work", 1);
  params.planned.parts = layout.add<Part>("parts", parts.size() + 1);
  params.space.num_units = layout.add<int32_t>("num_units", 1);
  params.space.units = layout.add<Unit>("units", expected.size() + 1);
  std::vector<std::byte> bytes(layout.total_bytes(), std::byte{0xcd});
  put(bytes, params.planned.work, std::span<const WorkListHeader>(&header, 1));
  put(bytes, params.planned.parts, std::span<const Part>(parts));
  gpu::DeviceArray<std::byte> memory{std::span<const std::byte>(bytes)};
  build_units_kernel<<<1, kNumThreads>>>({}, params, memory.data());
  MF_CUDA(cudaGetLastError());
  const std::vector<Unit> units = taken(memory, params.space.units);
  EXPECT_EQ(taken(memory, params.space.num_units)[0], num_units);
  for (size_t i = 0; i < expected.size(); ++i) {
    const Unit &seen = units[i], &wanted = expected[i];
    ASSERT_TRUE(seen.first_tile == wanted.first_tile && seen.num_tiles == wanted.num_tiles &&
                seen.weight_slot == wanted.weight_slot && seen.last_rows == wanted.last_rows)
        << "unit " << i << " of " << num_units << ": tiles " << seen.first_tile << " + "
        << seen.num_tiles << ", expected " << wanted.first_tile << " + " << wanted.num_tiles;
  }
  EXPECT_EQ(units.back().num_tiles, int32_t(0xcdcdcdcd));
}

std::vector<Part> parts_of(const std::vector<int32_t>& rows) {
  std::vector<Part> parts;
  int32_t tile = 0;
  for (const int32_t num_rows : rows) {
    const auto slot = static_cast<int32_t>(2 * parts.size() + 1);
    parts.push_back({.weight_slot = slot,
                     .num_rows = num_rows,
                     .first_tile = tile,
                     .num_tiles = ceil_div(num_rows, kTileRows)});
    tile += parts.back().num_tiles;
  }
  return parts;
}

TEST(LaunchTables, UnitsOfAnyList) {
  MF_NEEDS_GPUS(1);
  Rng rng(21);
  const int32_t most = gpu::by_size(2'000, 500, 2'000);
  for (const int32_t num_parts : {0, 1, 7, 383, 384, 385, 1032}) {
    for (const int32_t unit_tiles : {1, 3, 16}) {
      SCOPED_TRACE(std::to_string(num_parts) + " parts, units of " + std::to_string(unit_tiles));
      std::vector<int32_t> rows;
      for (int32_t i = 0; i < num_parts; ++i) {
        rows.push_back(1 + static_cast<int32_t>(rng.below(static_cast<uint32_t>(most))));
      }
      expect_units(parts_of(rows), unit_tiles);
      if (HasFailure()) return;
    }
  }
}

// Hot experts, with thousands of units each, at the start, inside and at the end of the others.
TEST(LaunchTables, UnitsOfHotExperts) {
  MF_NEEDS_GPUS(1);
  const int32_t hot = gpu::by_size(524'288, 70'000, 524'288);
  for (const size_t place : {0, 200, 399}) {
    std::vector<int32_t> rows(400, 5);
    rows[place] = hot;
    rows[(place + 1) % rows.size()] = hot + 1;
    for (const int32_t unit_tiles : {1, 16}) {
      SCOPED_TRACE(std::to_string(place) + ", units of " + std::to_string(unit_tiles));
      expect_units(parts_of(rows), unit_tiles);
      if (HasFailure()) return;
    }
  }
}

// A plan's bytes as far as the table of slots follows from them: one expert has a replica on every
// other rank, and slots are empty, resident, or of a replica without blocks.
struct SlotPlan {
  PlanDims dims;
  std::vector<std::byte> bytes;
  std::vector<int32_t> slots;  // what the table is to say

  SlotPlan(Rng& rng, const PlanDims& of) : dims(of) {
    const PlanLayout layout(dims);
    bytes.assign(layout.total_bytes, std::byte{0});
    auto* const wanted = reinterpret_cast<int32_t*>(bytes.data() + layout.slot_expert);
    auto* const instances = reinterpret_cast<int32_t*>(bytes.data() + layout.instances);
    int32_t count = 0;
    const auto add = [&](int32_t rank, int32_t slot, int32_t num_blocks) {
      const int32_t words[] = {rank, slot, 0, num_blocks};
      std::ranges::copy(words, instances + 4 * count++);
    };
    for (int32_t expert = 0; expert < dims.num_experts; ++expert) {
      add(expert % dims.num_ranks, -1, static_cast<int32_t>(rng.below(3)));
    }
    for (int32_t i = 0; i < dims.num_ranks * dims.replica_slots; ++i) {
      const int32_t rank = i / dims.replica_slots, slot = i % dims.replica_slots;
      const bool is_hot = slot == 0;
      wanted[i] = is_hot ? 0 : -1;
      if (!is_hot && rng.below(3) != 0) wanted[i] = 1 + static_cast<int32_t>(rng.below(7));
      const bool is_resident = wanted[i] >= 0 && rng.below(3) == 0;
      bytes[layout.slot_resident + static_cast<size_t>(i)] = std::byte{is_resident};
      const auto num_blocks = static_cast<int32_t>(rng.below(2));
      if (wanted[i] >= 0 && (num_blocks > 0 || rng.below(2) == 0)) add(rank, slot, num_blocks);
      slots.push_back(num_blocks > 0 || is_resident ? wanted[i] : -1);
    }
    PlanHeader header;
    header.num_instances = count;
    std::ranges::copy(std::as_bytes(std::span(&header, 1)), bytes.begin());
  }
};

TEST(LaunchTables, SlotsOfAnyPlan) {
  MF_NEEDS_GPUS(1);
  Rng rng(22);
  for (const PlanDims& dims :
       {PlanDims{16, 2, 1, 128}, PlanDims{64, 8, 4, 128}, PlanDims{1024, 128, 8, 128}}) {
    SCOPED_TRACE(dims.num_ranks);
    const SlotPlan plan(rng, dims);
    Layout layout;
    PlannedFields planned = planned_for(dims);
    planned.plan = layout.add<std::byte>("plan", plan.bytes.size());
    const auto table = layout.add<int32_t>("slot_experts", plan.slots.size());
    std::vector<std::byte> bytes(layout.total_bytes(), std::byte{0xcd});
    put(bytes, planned.plan, std::span<const std::byte>(plan.bytes));
    gpu::DeviceArray<std::byte> memory{std::span<const std::byte>(bytes)};
    note_slots_kernel<<<1, kNumThreads>>>({}, planned, table, memory.data());
    MF_CUDA(cudaGetLastError());
    EXPECT_EQ(taken(memory, table), plan.slots);
  }
}

}  // namespace
}  // namespace megaflux::test
