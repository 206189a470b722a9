// From drafts to the bytes of a plan, by one block: what Plan::assign does on the host, every
// replica and every expert at once. The plan is laid out in shared memory, hashed and copied out.
#pragma once

#include <cstdint>

#include "megaflux/base/hash.h"
#include "megaflux/plan/planner_memory_device.cuh"
#include "megaflux/plan/search/warp_lanes_device.cuh"

namespace megaflux {

// The plan while it is laid out.
struct StagedPlan {
  __device__ StagedPlan(const PlanDims& dims, std::byte* staged)
      : layout(dims),
        bytes(staged),
        owner_of(reinterpret_cast<int32_t*>(staged + layout.owner_of)),
        instance_begin(reinterpret_cast<int32_t*>(staged + layout.instance_begin)),
        instances(reinterpret_cast<Instance*>(staged + layout.instances)),
        slot_expert(reinterpret_cast<int32_t*>(staged + layout.slot_expert)),
        slot_resident(reinterpret_cast<uint8_t*>(staged + layout.slot_resident)) {}
  PlanLayout layout;
  std::byte* bytes;
  int32_t* owner_of;
  int32_t* instance_begin;
  Instance* instances;  // 4-byte aligned only: instance_begin has E + 1 entries
  int32_t* slot_expert;
  uint8_t* slot_resident;
};

__device__ inline int32_t words_of(size_t bytes) {
  return static_cast<int32_t>((bytes + 3) / 4);
}

__device__ inline void write_instance(const Instance& from, Instance* to) {
  to->rank = from.rank;
  to->slot = from.slot;
  to->first_block = from.first_block;
  to->num_blocks = from.num_blocks;
}

// Zeros everywhere, -1 in the slots.
__device__ inline void clear_staged(const DevicePlannerParams& params, StagedPlan& plan) {
  auto* words = reinterpret_cast<uint32_t*>(plan.bytes);
  const auto first_slot = static_cast<int32_t>(plan.layout.slot_expert / 4);
  const auto last_slot = static_cast<int32_t>(plan.layout.slot_resident / 4);
  MF_UNROLL(1)
  for (auto w = static_cast<int32_t>(threadIdx.x); w < words_of(plan.layout.total_bytes);
       w += block_threads()) {
    words[w] = w >= first_slot && w < last_slot ? 0xffffffffu : 0;
  }
}

// Where a replica stands among the instances of its expert and the slots of its rank.
struct DraftPlace {
  int32_t order = 0;         // instances of the expert on lower ranks
  int32_t first_block = 0;   // blocks of those
  int32_t other_blocks = 0;  // of all replicas of the expert
  int32_t blocks_below_owner = 0;
  int32_t owner_order = 0;
  int32_t lower_experts = 0;  // replicas of lower experts on its rank
  bool is_first = true;       // of the replicas of its expert
};

__device__ inline DraftPlace place_draft(const DeviceDraft& draft, int32_t owner,
                                         const DeviceDraft* drafts, int32_t num_drafts) {
  DraftPlace place;
#pragma unroll 4
  for (int32_t j = 0; j < num_drafts; ++j) {
    const DeviceDraft other = drafts[j];
    const bool is_sibling = other.expert == draft.expert;
    const bool is_below = is_sibling && other.rank < draft.rank;
    const bool is_below_owner = is_sibling && other.rank < owner;
    place.order += is_below;
    place.is_first = place.is_first && !is_below;
    place.first_block += is_below ? other.num_blocks : 0;
    place.other_blocks += is_sibling ? other.num_blocks : 0;
    place.owner_order += is_below_owner;
    place.blocks_below_owner += is_below_owner ? other.num_blocks : 0;
    place.lower_experts += other.rank == draft.rank && other.expert < draft.expert;
  }
  return place;
}

// instance_begin[e + 1] = end of e's instances. `extra` are replicas counted per expert.
__device__ inline void scan_instances(int32_t num_experts, const int32_t* extra,
                                      uint32_t* warp_sums, int32_t* instance_begin) {
  const auto t = static_cast<int32_t>(threadIdx.x);
  const int32_t lane = t % 32, warp = t / 32;
  const int32_t num_warps = block_threads() / 32;
  const int32_t chunks = ceil_div(num_experts, 32);
  // Chunks of 32 experts: sums inside each first, then the sums of chunks in front.
  MF_UNROLL(1)
  for (int32_t chunk = warp; chunk < chunks; chunk += num_warps) {
    const int32_t e = chunk * 32 + lane;
    int32_t sum = e < num_experts ? 1 + extra[e] : 0;
#pragma unroll
    for (int32_t step = 1; step < 32; step *= 2) {
      const int32_t before = __shfl_up_sync(kWholeWarp, sum, step);
      if (lane >= step) sum += before;
    }
    if (e < num_experts) instance_begin[e + 1] = sum;
    if (lane == 31) warp_sums[chunk] = static_cast<uint32_t>(sum);
  }
  __syncthreads();
  MF_UNROLL(1)
  for (int32_t chunk = warp; chunk < chunks; chunk += num_warps) {
    const int32_t before =
        static_cast<int32_t>(__reduce_add_sync(kWholeWarp, lane < chunk ? warp_sums[lane] : 0u));
    const int32_t e = chunk * 32 + lane;
    if (e < num_experts) instance_begin[e + 1] += before;
  }
  __syncthreads();
}

// The slots of one rank where some hold an expert already: residents keep theirs, the others take
// free ones in ascending order of experts, slots that hold nothing first. One thread a rank.
__device__ inline void place_in_slots(const DevicePlannerParams& params, int32_t rank,
                                      const int32_t* resident, int32_t num_drafts,
                                      PlannerMemory& memory, StagedPlan& plan) {
  const int32_t s = params.dims.replica_slots;
  const int32_t* held = resident + rank * s;
  int32_t* taken = plan.slot_expert + rank * s;
  uint8_t* is_resident = plan.slot_resident + rank * s;
  MF_UNROLL(1)
  for (int32_t i = 0; i < num_drafts; ++i) {
    if (memory.drafts()[i].rank != rank) continue;
    MF_UNROLL(1)
    for (int32_t slot = 0; slot < s; ++slot) {
      if (__ldcg(held + slot) != memory.drafts()[i].expert) continue;
      taken[slot] = memory.drafts()[i].expert;
      is_resident[slot] = 1;
      break;
    }
  }
  for (int32_t last = -1;;) {
    int32_t next = INT32_MAX;  // the lowest expert above `last` that has no slot yet
    MF_UNROLL(1)
    for (int32_t i = 0; i < num_drafts; ++i) {
      const int32_t e = memory.drafts()[i].expert;
      if (memory.drafts()[i].rank != rank || e <= last || e >= next) continue;
      bool has_slot = false;
      MF_UNROLL(1)
      for (int32_t slot = 0; slot < s; ++slot) has_slot |= is_resident[slot] && taken[slot] == e;
      if (!has_slot) next = e;
    }
    if (next == INT32_MAX) return;
    int32_t free_slot = -1;
    for (int32_t slot = s - 1; slot >= 0; --slot) {
      const bool is_free = taken[slot] < 0;
      const bool holds_nothing = __ldcg(held + slot) < 0;
      if (is_free && (holds_nothing || free_slot < 0 || __ldcg(held + free_slot) >= 0)) {
        free_slot = slot;
      }
    }
    taken[free_slot] = next;
    last = next;
  }
}

// Sum of the contributions of all words after the header, which are copied to `out` on the way.
// Valid in thread 0.
__device__ inline uint64_t hash_and_copy(const StagedPlan& plan, uint32_t* warp_sums,
                                         std::byte* out) {
  constexpr int32_t kHeaderWords = sizeof(PlanHeader) / 4;
  constexpr int32_t kDimWords = 4;  // E, P, s, block_rows come first
  const auto* words = reinterpret_cast<const uint32_t*>(plan.bytes);
  const auto whole_words = static_cast<int32_t>(plan.layout.total_bytes / 4);
  uint64_t sum = 0;
  MF_UNROLL(1)
  for (int32_t w = kHeaderWords + static_cast<int32_t>(threadIdx.x);
       w < words_of(plan.layout.total_bytes); w += block_threads()) {
    sum += hash_word(words[w], static_cast<uint64_t>(w - kHeaderWords + kDimWords));
    if (w < whole_words) {
      reinterpret_cast<uint32_t*>(out)[w] = words[w];
    } else {
      for (size_t i = static_cast<size_t>(w) * 4; i < plan.layout.total_bytes; ++i) {
        out[i] = plan.bytes[i];
      }
    }
  }
  sum = warp_sum(sum);
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  if (threadIdx.x % 32 == 0) {
    warp_sums[2 * warp] = static_cast<uint32_t>(sum >> 32);
    warp_sums[2 * warp + 1] = static_cast<uint32_t>(sum);
  }
  __syncthreads();
  if (warp != 0) return 0;
  const auto lane = static_cast<int32_t>(threadIdx.x);
  const bool has_sum = lane < block_threads() / 32;
  return warp_sum(
      has_sum ? static_cast<uint64_t>(warp_sums[2 * lane]) << 32 | warp_sums[2 * lane + 1] : 0);
}

// Instances, in the order of experts and ranks, and slots where none holds anything yet.
__device__ inline void place_instances(const DevicePlannerParams& params, int32_t num_drafts,
                                       bool has_held, PlannerMemory& memory, StagedPlan& plan) {
  const auto t = static_cast<int32_t>(threadIdx.x);
  const int32_t num_experts = params.dims.num_experts, s = params.dims.replica_slots;
  int32_t* const extra = memory.rows;  // no longer needed
  MF_UNROLL(1)
  for (int32_t i = t; i < num_drafts; i += block_threads()) {
    atomicAdd(extra + memory.drafts()[i].expert, 1);
  }
  __syncthreads();
  scan_instances(num_experts, extra, memory.warp_sums, plan.instance_begin);
  MF_UNROLL(1)
  for (int32_t e = t; e < num_experts; e += block_threads()) {
    const int32_t owner = memory.owner_of[e];
    if (extra[e] > 0) continue;
    write_instance({owner, -1, 0, memory.blocks_of[e]}, plan.instances + plan.instance_begin[e]);
    if (memory.blocks_of[e] > 0) atomicAdd(memory.rank_blocks + owner, memory.blocks_of[e]);
  }
  MF_UNROLL(1)
  for (int32_t i = t; i < num_drafts; i += block_threads()) {
    const DeviceDraft draft = memory.drafts()[i];
    const int32_t owner = memory.owner_of[draft.expert];
    const DraftPlace place = place_draft(draft, owner, memory.drafts(), num_drafts);
    const int32_t left = memory.blocks_of[draft.expert] - place.other_blocks;
    const bool is_after_owner = owner < draft.rank;
    Instance* const first = plan.instances + plan.instance_begin[draft.expert];
    const int32_t slot = has_held ? -1 : place.lower_experts;
    write_instance(
        {draft.rank, slot, place.first_block + (is_after_owner ? left : 0), draft.num_blocks},
        first + place.order + is_after_owner);
    atomicAdd(memory.rank_blocks + draft.rank, draft.num_blocks);
    if (!has_held) plan.slot_expert[draft.rank * s + slot] = draft.expert;
    if (place.is_first) {
      write_instance({owner, -1, place.blocks_below_owner, left}, first + place.owner_order);
      atomicAdd(memory.rank_blocks + owner, left);
    }
  }
}

// Slots where some hold an expert already. After place_instances and a barrier.
__device__ inline void place_held(const DevicePlannerParams& params, const int32_t* resident,
                                  int32_t num_drafts, PlannerMemory& memory, StagedPlan& plan) {
  const auto t = static_cast<int32_t>(threadIdx.x);
  const int32_t s = params.dims.replica_slots;
  MF_UNROLL(1)
  for (int32_t r = t; r < params.dims.num_ranks; r += block_threads()) {
    place_in_slots(params, r, resident, num_drafts, memory, plan);
  }
  __syncthreads();
  MF_UNROLL(1)
  for (int32_t i = t; i < num_drafts; i += block_threads()) {
    const DeviceDraft& draft = memory.drafts()[i];
    MF_UNROLL(1)
    for (int32_t slot = 0; slot < s; ++slot) {
      if (plan.slot_expert[draft.rank * s + slot] != draft.expert) continue;
      Instance* instance = plan.instances + plan.instance_begin[draft.expert];
      while (instance->rank != draft.rank) ++instance;
      instance->slot = slot;
      if (plan.slot_resident[draft.rank * s + slot] != 0) atomicAdd(&memory.facts.num_kept, 1);
    }
  }
  __syncthreads();
}

// Lays the drafts out and writes the plan to `out` (4-byte aligned). `resident` may be null. Whole
// block; the searches' memory is overwritten.
__device__ inline void lay_out(const DevicePlannerParams& params, uint16_t flags,
                               const int32_t* resident, PlannerMemory& memory, std::byte* out) {
  StagedPlan plan(params.dims, memory.staged_plan(params));
  const auto t = static_cast<int32_t>(threadIdx.x);
  const int32_t num_drafts = memory.facts.num_drafts;
  clear_staged(params, plan);
  MF_UNROLL(1)
  for (int32_t e = t; e < params.dims.num_experts; e += block_threads()) memory.rows[e] = 0;
  __syncthreads();
  MF_UNROLL(1)
  for (int32_t e = t; e < params.dims.num_experts; e += block_threads()) {
    plan.owner_of[e] = memory.owner_of[e];
  }
  place_instances(params, num_drafts, resident != nullptr, memory, plan);
  __syncthreads();
  if (resident != nullptr && num_drafts > 0) place_held(params, resident, num_drafts, memory, plan);
  const uint64_t sum = hash_and_copy(plan, memory.warp_sums, out);
  if (t >= 32) return;
  int32_t most = 0;
  for (int32_t r = t; r < params.dims.num_ranks; r += 32) most = max(most, memory.rank_blocks[r]);
  most = __reduce_max_sync(kWholeWarp, most);
  if (t != 0) return;
  PlanHeader header;
  header.flags = flags;
  header.num_experts = params.dims.num_experts;
  header.num_ranks = params.dims.num_ranks;
  header.replica_slots = params.dims.replica_slots;
  header.block_rows = params.dims.block_rows;
  header.num_instances = params.dims.num_experts + num_drafts;
  header.search_id = memory.facts.search_id;
  header.max_blocks = most;
  header.num_copies = num_drafts - memory.facts.num_kept;
  header.objective = memory.facts.objective;
  const int32_t dims[4] = {header.num_experts, header.num_ranks, header.replica_slots,
                           header.block_rows};
  uint64_t total = sum;
#pragma unroll
  for (int32_t i = 0; i < 4; ++i) total += hash_word(static_cast<uint32_t>(dims[i]), i);
  header.hash =
      mix64(total ^ static_cast<uint64_t>(4 + words_of(plan.layout.total_bytes - sizeof(header))));
  *reinterpret_cast<PlanHeader*>(out) = header;
}

}  // namespace megaflux
