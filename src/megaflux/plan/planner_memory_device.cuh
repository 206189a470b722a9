// Shared memory of the device planner.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/plan/device_planner_params.h"
#include "megaflux/plan/search/search_view.h"

namespace megaflux {

__device__ inline int32_t block_threads() {
  return static_cast<int32_t>(blockDim.x);
}

// A replica of the plan being made, in ids.
struct alignas(16) DeviceDraft {
  int32_t expert = 0;
  int32_t rank = 0;
  int32_t num_blocks = 0;
};

inline constexpr int32_t kMostScoreWords = 8;
inline constexpr int32_t kBestScore = 31;  // column of the best so far; the others are searches'

// What is known of a domain before it is searched.
struct DomainFacts {
  int64_t tau = 0;
  int64_t accepted = 0;
  int64_t finish = 0;            // largest of fixed placement
  uint64_t fixed_objective = 0;  // its objective
  int32_t total_blocks = 0;
};

// What the block knows of the step.
struct PlannerFacts {
  uint32_t error = 0;      // 1 = too many rows
  uint32_t rows_high = 0;  // sum over experts of rows >> 16
  uint32_t rows_low = 0;   // and of rows & 0xffff
  uint32_t num_orphans = 0;
  int32_t total_blocks = 0;
  uint32_t is_refused = 0;  // by the pre-gate
  uint32_t has_resident = 0;
  int32_t num_drafts = 0;  // of the domains before
  int32_t search_id = -1;
  int32_t num_kept = 0;    // replicas whose slot held the expert already
  int32_t max_blocks = 0;  // on a rank of the plan
  uint64_t objective = 0;
  // Of the domain being searched.
  int32_t domain_drafts = 0;
  int32_t domain_search_id = -1;
  uint64_t domain_objective = 0;
};

// What the replicas of a search ask of one rank. Counts are of what it hosts, and of its own
// experts on others << 16: at most P s.
struct alignas(16) RankAsks {
  uint32_t replicas = 0;
  uint32_t kept = 0;     // of them, those that are resident
  int32_t moved_in = 0;  // blocks
};
static_assert(kMaxDeviceRanks * kMaxDeviceSlots < 1 << 16);
static_assert(sizeof(RankAsks) <= sizeof(SearchReplica));

// Shared memory of the block: this, at fixed places so that addresses are constants, and behind it
// what depends on E, P and s.
struct alignas(16) PlannerMemory {
  PlannerFacts facts;
  uint32_t scores[kMostScoreWords * 32];
  uint32_t warp_sums[64];
  DeviceDomain domains[kMaxDeviceRanks];
  DomainFacts domain_facts[kMaxDeviceRanks];
  int32_t rank_blocks[kMaxDeviceRanks];  // of the plan, by id
  // By place of the rank.
  int32_t fixed_load[kMaxDeviceRanks];
  int32_t first_owned[2 * kMaxDeviceRanks];
  int16_t ranks[kMaxDeviceRanks];
  // By id of the expert, [E].
  int32_t rows[kMaxDeviceExperts];       // c_e
  int32_t blocks_of[kMaxDeviceExperts];  // b_e
  int32_t blocks_at[kMaxDeviceExperts];  // the same by place
  int16_t owner_of[kMaxDeviceExperts];
  int16_t owner_place[kMaxDeviceExperts];
  int16_t place_of[kMaxDeviceExperts];  // in the problem
  int16_t owned[kMaxDeviceExperts];     // ids by place
  // The problem of one domain: by local rank, and by place among its sorted experts.
  int32_t domain_load[kMaxDeviceRanks];
  int32_t domain_first[kMaxDeviceRanks + 1];
  int32_t owner[kMaxDeviceExperts];  // local rank
  int32_t blocks[kMaxDeviceExperts];
  int16_t ids[kMaxDeviceExperts];

  // Replicas decided so far, [P s].
  MF_HOST_DEVICE DeviceDraft* drafts() { return at<DeviceDraft>(sizeof(PlannerMemory)); }
  // Ranks that hold each expert of the problem already, [E, rank_words].
  MF_HOST_DEVICE uint64_t* resident(const DevicePlannerParams& params) {
    return at<uint64_t>(params.resident_offset);
  }
  // Least sizes of replicas, [E] each; none unless has_least.
  MF_HOST_DEVICE int32_t* least_fresh(const DevicePlannerParams& params) {
    return at<int32_t>(params.least_offset);
  }
  MF_HOST_DEVICE int32_t* least_present(const DevicePlannerParams& params) {
    return least_fresh(params) + params.dims.num_experts;
  }
  // The plan is laid out where the searches were.
  MF_HOST_DEVICE std::byte* staged_plan(const DevicePlannerParams& params) {
    return at<std::byte>(params.search_offset);
  }
  // Memory of the search of one warp.
  template <class Lanes>
  MF_HOST_DEVICE SearchMemory search(const DevicePlannerParams& params, int32_t warp) {
    const auto begin = params.search_offset + static_cast<uint32_t>(warp) * params.search_bytes;
    constexpr uint32_t kRankBytes = Lanes::kMaxRanks * sizeof(int32_t);
    const uint32_t experts = begin + 4 * kRankBytes;
    const auto num_experts = static_cast<uint32_t>(params.dims.num_experts);
    const auto expert_bytes = static_cast<uint32_t>(sizeof(SearchExpert)) * num_experts;
    SearchMemory memory;
    memory.gap = at<int32_t>(begin);
    memory.capacity = at<int32_t>(begin + kRankBytes);
    memory.slots_left = at<int32_t>(begin + 2 * kRankBytes);
    memory.scratch = at<int32_t>(begin + 3 * kRankBytes);
    memory.experts = at<SearchExpert>(experts);
    memory.replicas = at<SearchReplica>(experts + expert_bytes);
    memory.more_holders = at<uint64_t>(begin + params.holders_offset);
    return memory;
  }
  // Of this warp's search, [ranks of the domain]: in the room for notes, which are written and read
  // while nothing is scored.
  template <class Lanes>
  __device__ RankAsks* asks(const DevicePlannerParams& params) {
    const auto warp = static_cast<int32_t>(threadIdx.x / 32);
    SearchReplica* const replicas = search<Lanes>(params, warp).replicas;
    return reinterpret_cast<RankAsks*>(replicas + params.num_places * params.dims.replica_slots);
  }

 private:
  template <typename T>
  MF_HOST_DEVICE T* at(uint32_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(this) + offset);
  }
};

// Fills in where everything lies, all parts 16-byte aligned. `dims`, `lanes`, `rank_words`,
// `num_places` and `has_least` are set.
inline void place_memory(DevicePlannerParams& params) {
  const auto experts = static_cast<size_t>(params.dims.num_experts);
  const auto replicas = static_cast<size_t>(2) * params.num_places * params.dims.replica_slots;
  size_t end = sizeof(PlannerMemory);
  const auto take = [&end](size_t bytes) {
    const size_t begin = end;
    end = round_up(end + bytes, size_t{16});
    return static_cast<uint32_t>(begin);
  };
  take(sizeof(DeviceDraft) * params.dims.num_ranks * params.dims.replica_slots);
  params.resident_offset = take(sizeof(uint64_t) * experts * params.rank_words);
  params.least_offset = take(params.has_least ? 2 * sizeof(int32_t) * experts : 0);
  params.search_offset = static_cast<uint32_t>(end);
  take(4 * sizeof(int32_t) * most_ranks(params.lanes));
  take(sizeof(SearchExpert) * experts);
  take(sizeof(SearchReplica) * replicas);
  params.holders_offset = take(sizeof(uint64_t) * experts * (params.rank_words - 1));
  params.holders_offset -= params.search_offset;
  params.search_bytes = static_cast<uint32_t>(end) - params.search_offset;
}

}  // namespace megaflux
