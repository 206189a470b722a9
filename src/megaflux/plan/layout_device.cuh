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
        slots(dims.replica_slots),
        bytes(staged),
        instance_begin(reinterpret_cast<int32_t*>(staged + layout.instance_begin)),
        instances(reinterpret_cast<Instance*>(staged + layout.instances)),
        slot_expert(reinterpret_cast<int32_t*>(staged + layout.slot_expert)),
        slot_resident(reinterpret_cast<uint8_t*>(staged + layout.slot_resident)) {}
  PlanLayout layout;
  int32_t slots;  // of a rank
  std::byte* bytes;
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

// Owners; zeros behind the instances and where residents are noted.
__device__ inline void write_known(const PlannerMemory& memory, int32_t num_instances,
                                   StagedPlan& plan) {
  auto* words = reinterpret_cast<uint32_t*>(plan.bytes);
  const auto first_owner = static_cast<int32_t>(plan.layout.owner_of / 4);
  const auto num_owners = static_cast<int32_t>(plan.layout.instance_begin / 4) - first_owner;
  const auto tail = static_cast<int32_t>(plan.layout.instances / 4) + 4 * num_instances;
  const auto first_slot = static_cast<int32_t>(plan.layout.slot_expert / 4);
  const auto t = static_cast<int32_t>(threadIdx.x);
  if (t == 0) plan.instance_begin[0] = 0;
  MF_UNROLL(1)
  for (int32_t e = t; e < num_owners; e += block_threads()) {
    words[first_owner + e] = static_cast<uint32_t>(memory.owner_of[e]);
  }
  MF_UNROLL(1)
  for (int32_t w = tail + t; w < first_slot; w += block_threads()) words[w] = 0;
  MF_UNROLL(1)
  for (int32_t w = static_cast<int32_t>(plan.layout.slot_resident / 4) + t;
       w < words_of(plan.layout.total_bytes); w += block_threads()) {
    words[w] = 0;
  }
}

// The owner's instance of expert e, and where the next expert's begin.
__device__ inline void write_owner(int32_t e, int32_t num_drafts, PlannerMemory& memory,
                                   StagedPlan& plan) {
  const int32_t owner = memory.owner_of[e];
  int32_t lower = 0, replicas = 0, blocks = 0;  // of lower experts; of e
  int32_t below = 0, blocks_below = 0;          // of e, on lower ranks than the owner
#pragma unroll 4
  for (int32_t j = 0; j < num_drafts; ++j) {
    const DeviceDraft draft = memory.drafts()[j];
    const bool is_own = draft.expert == e;
    const bool is_below = is_own && draft.rank < owner;
    lower += draft.expert < e;
    replicas += is_own;
    blocks += is_own ? draft.num_blocks : 0;
    below += is_below;
    blocks_below += is_below ? draft.num_blocks : 0;
  }
  const int32_t left = memory.blocks_of[e] - blocks;
  plan.instance_begin[e + 1] = e + 1 + lower + replicas;
  write_instance({owner, -1, blocks_below, left}, plan.instances + e + lower + below);
  if (left > 0) atomicAdd(memory.rank_blocks + owner, left);
}

// A replica's instance. Without residents it takes the slot that the number of lower experts on its
// rank says.
__device__ inline void write_replica(const DeviceDraft& draft, int32_t num_drafts, bool has_held,
                                     PlannerMemory& memory, StagedPlan& plan) {
  int32_t lower = 0, order = 0, first_block = 0, others = 0, slot = 0;
#pragma unroll 4
  for (int32_t j = 0; j < num_drafts; ++j) {
    const DeviceDraft other = memory.drafts()[j];
    const bool is_sibling = other.expert == draft.expert;
    const bool is_below = is_sibling && other.rank < draft.rank;
    lower += other.expert < draft.expert;
    order += is_below;
    first_block += is_below ? other.num_blocks : 0;
    others += is_sibling ? other.num_blocks : 0;
    slot += other.rank == draft.rank && other.expert < draft.expert;
  }
  const bool is_after_owner = memory.owner_of[draft.expert] < draft.rank;
  if (is_after_owner) first_block += memory.blocks_of[draft.expert] - others;
  write_instance({draft.rank, has_held ? -1 : slot, first_block, draft.num_blocks},
                 plan.instances + draft.expert + lower + order + is_after_owner);
  atomicAdd(memory.rank_blocks + draft.rank, draft.num_blocks);
  if (!has_held) plan.slot_expert[draft.rank * plan.slots + slot] = draft.expert;
}

// The slots of a rank that stay empty.
__device__ inline void write_empty(int32_t rank, int32_t num_drafts, PlannerMemory& memory,
                                   StagedPlan& plan) {
  int32_t taken = 0;
#pragma unroll 4
  for (int32_t j = 0; j < num_drafts; ++j) taken += memory.drafts()[j].rank == rank;
  MF_UNROLL(1)
  for (int32_t slot = taken; slot < plan.slots; ++slot) {
    plan.slot_expert[rank * plan.slots + slot] = -1;
  }
}

// What slot_resident says of a slot until all replicas have theirs. That a replica is kept stays in
// the plan, as 1.
enum SlotState : uint8_t { kHoldsNothing = 0, kKeepsReplica = 1, kHoldsAnother = 2 };

// Whether slot q, which holds slot_expert[q], keeps it: the rank's lowest slot with an expert that
// the plan wants there.
__device__ inline SlotState state_of_slot(int32_t q, int32_t num_drafts, PlannerMemory& memory,
                                          const StagedPlan& plan) {
  const int32_t held = plan.slot_expert[q], rank = q / plan.slots;
  if (held < 0) return kHoldsNothing;
  bool is_wanted = false;
#pragma unroll 4
  for (int32_t j = 0; j < num_drafts; ++j) {
    const DeviceDraft draft = memory.drafts()[j];
    is_wanted |= draft.rank == rank && draft.expert == held;
  }
  MF_UNROLL(1)
  for (int32_t lower = rank * plan.slots; lower < q; ++lower) {
    is_wanted &= plan.slot_expert[lower] != held;
  }
  return is_wanted ? kKeepsReplica : kHoldsAnother;
}

// The slot of a replica: the one that holds it already; else, in ascending order of experts, those
// that hold nothing come first, then those that hold another, lower slots first.
__device__ inline int32_t choose_slot(const DeviceDraft& draft, int32_t num_drafts,
                                      PlannerMemory& memory, const StagedPlan& plan) {
  const int32_t first = draft.rank * plan.slots;
  int32_t before = 0;  // replicas of the rank that choose earlier
#pragma unroll 4
  for (int32_t j = 0; j < num_drafts; ++j) {
    const DeviceDraft other = memory.drafts()[j];
    before += other.rank == draft.rank && other.expert < draft.expert;
  }
  int32_t empty = 0, own = -1;
  MF_UNROLL(1)
  for (int32_t slot = 0; slot < plan.slots; ++slot) {
    const uint8_t state = plan.slot_resident[first + slot];
    const int32_t held = plan.slot_expert[first + slot];
    empty += state == kHoldsNothing;
    if (state != kKeepsReplica) continue;
    if (held == draft.expert) own = slot;
    before -= held < draft.expert;
  }
  if (own >= 0) return own;
  const SlotState wanted = before < empty ? kHoldsNothing : kHoldsAnother;
  if (before >= empty) before -= empty;
  int32_t slot = 0;
  for (; plan.slot_resident[first + slot] != wanted || before-- > 0;) ++slot;
  return slot;
}

// Sum of the contributions of all words after the header, which are copied to `out` on the way.
// Valid in thread 0.
__device__ inline uint64_t hash_and_copy(const StagedPlan& plan, uint32_t* warp_sums,
                                         std::byte* out) {
  constexpr int32_t kHeaderWords = sizeof(PlanHeader) / 4;
  constexpr int32_t kDimWords = kNumDimWords;
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

// Every word of the plan, each by one thread: nobody waits for anybody. Experts are dealt out from
// the first thread on, replicas from the middle, ranks from the end. Where something is resident,
// slots are written as they are found, and replicas without theirs.
__device__ inline void place_instances(const DevicePlannerParams& params, const int32_t* resident,
                                       int32_t num_drafts, PlannerMemory& memory,
                                       StagedPlan& plan) {
  const bool has_held = resident != nullptr;
  const auto t = static_cast<int32_t>(threadIdx.x);
  const int32_t threads = block_threads(), middle = threads / 2;
  write_known(memory, params.dims.num_experts + num_drafts, plan);
  MF_UNROLL(1)
  for (int32_t e = t; e < params.dims.num_experts; e += threads) {
    write_owner(e, num_drafts, memory, plan);
  }
  MF_UNROLL(1)
  for (int32_t i = t < middle ? t + threads - middle : t - middle; i < num_drafts; i += threads) {
    write_replica(memory.drafts()[i], num_drafts, has_held, memory, plan);
  }
  const int32_t from_end = threads - 1 - t;
  MF_UNROLL(1)
  for (int32_t q = from_end; has_held && q < params.dims.num_ranks * plan.slots; q += threads) {
    plan.slot_expert[q] = __ldcg(resident + q);
  }
  MF_UNROLL(1)
  for (int32_t r = from_end; !has_held && r < params.dims.num_ranks; r += threads) {
    write_empty(r, num_drafts, memory, plan);
  }
}

__device__ inline Instance* instance_of(const DeviceDraft& draft, StagedPlan& plan) {
  Instance* instance = plan.instances + plan.instance_begin[draft.expert];
  MF_UNROLL(1)
  while (instance->rank != draft.rank) ++instance;
  return instance;
}

// Slots where some may hold an expert already. After place_instances and a barrier; whole block.
__device__ inline void place_held(int32_t num_slots, int32_t num_drafts, PlannerMemory& memory,
                                  StagedPlan& plan) {
  const auto t = static_cast<int32_t>(threadIdx.x);
  MF_UNROLL(1)
  for (int32_t q = t; q < num_slots; q += block_threads()) {
    const SlotState state = state_of_slot(q, num_drafts, memory, plan);
    plan.slot_resident[q] = state;
    if (state == kKeepsReplica) atomicAdd(&memory.facts.num_kept, 1);
  }
  __syncthreads();
  MF_UNROLL(1)
  for (int32_t i = t; i < num_drafts; i += block_threads()) {
    const DeviceDraft draft = memory.drafts()[i];
    instance_of(draft, plan)->slot = choose_slot(draft, num_drafts, memory, plan);
  }
  __syncthreads();
  MF_UNROLL(1)
  for (int32_t q = t; q < num_slots; q += block_threads()) {
    if (plan.slot_resident[q] == kKeepsReplica) continue;
    plan.slot_resident[q] = 0;
    plan.slot_expert[q] = -1;
  }
  __syncthreads();
  MF_UNROLL(1)
  for (int32_t i = t; i < num_drafts; i += block_threads()) {
    const DeviceDraft draft = memory.drafts()[i];
    plan.slot_expert[draft.rank * plan.slots + instance_of(draft, plan)->slot] = draft.expert;
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
  place_instances(params, resident, num_drafts, memory, plan);
  __syncthreads();
  if (resident != nullptr) {
    place_held(params.dims.num_ranks * params.dims.replica_slots, num_drafts, memory, plan);
  }
  if (t / 32 == block_threads() / 32 - 1) {
    int32_t most = 0;
    for (int32_t r = t % 32; r < params.dims.num_ranks; r += 32) {
      most = max(most, memory.rank_blocks[r]);
    }
    memory.facts.max_blocks = __reduce_max_sync(kWholeWarp, most);
  }
  const uint64_t sum = hash_and_copy(plan, memory.warp_sums, out);
  if (t != 0) return;
  PlanHeader header;
  header.flags = flags;
  header.num_experts = params.dims.num_experts;
  header.num_ranks = params.dims.num_ranks;
  header.replica_slots = params.dims.replica_slots;
  header.block_rows = params.dims.block_rows;
  header.num_instances = params.dims.num_experts + num_drafts;
  header.search_id = memory.facts.search_id;
  header.max_blocks = memory.facts.max_blocks;
  header.num_copies = num_drafts - memory.facts.num_kept;
  header.objective = memory.facts.objective;
  header.hash =
      mix64((sum + params.dims_hash) ^
            static_cast<uint64_t>(4 + words_of(plan.layout.total_bytes - sizeof(header))));
  *reinterpret_cast<PlanHeader*>(out) = header;
}

}  // namespace megaflux
