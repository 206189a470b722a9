// The head inside a kernel: from topk_ids in device memory to row maps, plan and work list of every
// rank of the device, without the host. docs/kernels/head.md draws who waits for whom.
//
//   CTAs 0 ... chunks - 1   count their chunk | sort it | map the sources, once entered
//   the last CTA            sum the counts, enter with them | plan | work list
//
// The planner comes as a functor, so that this room's kernel, a fused one and tests share the code:
//   static constexpr int32_t kThreads;  // of every CTA here
//   __device__ void operator()(const int32_t* loads, const int32_t* resident, std::byte* plan,
//                              std::byte* report, std::byte* shared) const;
//   __device__ HeadOutcome outcome(const std::byte* report) const;
// The first is called by all threads of one CTA; `shared` is its dynamic shared memory, 16-byte
// aligned. What it wrote is read behind a barrier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "megaflux/comm/entry_exit_device.cuh"
#include "megaflux/comm/row_map_device.cuh"
#include "megaflux/head/device_head_params.h"
#include "megaflux/head/sort_routes_device.cuh"
#include "megaflux/moe/work_list_device.cuh"

namespace megaflux {

namespace device_head {

// One rank's view of the arguments.
struct RankHead {
  const DeviceRank& self;
  const DeviceHeadParams& params;

  __device__ const RouteChunks& chunks() const { return params.chunks[self.local_idx]; }
  __device__ const RoutingView& routing() const { return params.routings[self.local_idx]; }
  template <typename T>
  __device__ T* at(Field<T> field) const {
    return self.own(field);
  }
  __device__ ChunkCounts counts() const {
    return {reinterpret_cast<uint64_t*>(at(params.fields.chunk_counts)), chunks().num_chunks,
            params.num_experts};
  }
  __device__ RowMapView row_map() const {
    return {at(params.fields.source_begin), at(params.fields.route_offsets), params.num_ranks,
            params.num_experts};
  }
};

// Of what enters the decision and is no configuration, as the host's head hashes it (with no plan
// from outside). Every warp finds it for itself.
__device__ inline uint64_t residency_hash(const DeviceHeadParams& params) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarpThreads);
  const int32_t num_slots = params.resident != nullptr ? params.num_slots : 0;
  const int32_t num_words = 7 + num_slots;
  uint64_t sum = 0;
#pragma unroll 1
  for (int32_t i = lane; i < num_words; i += kWarpThreads) {
    uint32_t word = 0;  // of the upper halves of sizes, and of the plan that is none
    if (i == 0) word = static_cast<uint32_t>(params.layer);
    if (i == 1) word = static_cast<uint32_t>(params.weight_version);
    if (i == 2) word = static_cast<uint32_t>(params.weight_version >> 32);
    if (i == 3) word = static_cast<uint32_t>(num_slots);
    if (i >= 5 && i < 5 + num_slots) word = static_cast<uint32_t>(params.resident[i - 5]);
    sum += hash_word(word, static_cast<uint64_t>(i));
  }
#pragma unroll
  for (int32_t step = kWarpThreads / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(~0u, sum, step);
  }
  return mix64(sum ^ static_cast<uint64_t>(num_words));
}

// Shared memory of the CTA that plans. The planner's own comes behind it, and serves as scratch
// before and after.
struct PlannerShared {
  uint64_t scan[2 * kMaxCtaWarps];
  uint32_t rows[kMaxDeviceExperts];  // per expert: first of this rank, then c_e
  // What is known before the planner and needed after it, which has no register to spare.
  std::byte* base;
  int32_t local_idx;
  int32_t rank;
  int32_t num_ctas;
  uint32_t epoch;
  uint32_t num_dropped;
  uint32_t padding;

  __device__ void save(const DeviceRank& self) {
    base = self.base;
    local_idx = self.local_idx;
    rank = self.rank;
    num_ctas = self.num_ctas;
    epoch = self.epoch;
  }
  // Of the CTA that plans, the last of its rank.
  __device__ DeviceRank saved(const DeviceContext& group) const {
    return {.group = group,
            .base = base,
            .local_idx = local_idx,
            .rank = rank,
            .cta = num_ctas - 1,
            .num_ctas = num_ctas,
            .epoch = epoch};
  }

  __device__ std::byte* behind() { return reinterpret_cast<std::byte*>(this + 1); }
  __device__ uint64_t* partial() { return reinterpret_cast<uint64_t*>(this + 1); }  // [kGroupSums]
};
static_assert(sizeof(PlannerShared) % 16 == 0);

template <int32_t kThreads>
__device__ void run_chunk(const RankHead& head, std::byte* memory) {
  const DeviceHeadFields& fields = head.params.fields;
  const SortShared shared(memory);
  ChunkSorter<kThreads> sorter(head.self, head.routing(), head.params.num_experts, head.chunks(),
                               shared);
  sorter.count();
  const ChunkCounts counts = head.counts();
  sorter.publish(counts);
  // Nobody reads the list: every launch that did has ended. Peers see it after the next entry.
  sorter.sort(counts, head.at(fields.routes.offsets), head.at(fields.routes.pairs));
  if (join_entry(head.self) != EntryOutcome::kEntered) return;
  const PayloadView payload = PayloadView::of(head.self);
  for (int32_t source = head.self.cta; source < head.params.num_ranks;
       source += head.chunks().num_chunks) {
    map_source<HeadCta<kThreads>::kExperts>(payload, source, head.row_map(), shared.scan);
  }
}

// Enters with the counts of this rank; false if there is nothing to plan.
template <int32_t kThreads>
__device__ bool enter_with_counts(const RankHead& head, PlannerShared& shared) {
  const DeviceHeadParams& params = head.params;
  const EntryWords words = {.op = LaunchOp::kHead,
                            .layer = params.layer,
                            .plan_hash = residency_hash(params),
                            .config_hash = params.config_hash};
  const ChunkCounts counts = head.counts();
  constexpr int32_t kExperts = HeadCta<kThreads>::kExperts;
  ColumnCounts columns[kExperts];
  if (!gather_counts(head.self, counts, 0, shared.partial(), columns)) return false;
#pragma unroll
  for (int32_t u = 0; u < kExperts; ++u) {
    const int32_t expert = kExperts * static_cast<int32_t>(threadIdx.x) + u;
    if (expert < params.num_experts) shared.rows[expert] = columns[u].total;
  }
  post_entry(head.self, words, shared.rows, params.num_experts);
  // Their counts were stored beside the others, so they are here. A warp that awaits no peer.
  bool is_sound = true;
  if (threadIdx.x / kWarpThreads == HeadCta<kThreads>::kWarps - 2) {
    uint32_t num_dropped = 0;
    is_sound = gather_dropped(head.self, counts, num_dropped);
    if (threadIdx.x % kWarpThreads == 0) shared.num_dropped = num_dropped;
  }
  if (threadIdx.x == 0) shared.save(head.self);
  const EntryOutcome outcome = await_entries(head.self, words);
  return __syncthreads_and(is_sound) && outcome == EntryOutcome::kEntered;
}

// The table of all ranks as the planner takes it, whole for all threads; and c_e in shared.rows,
// whole behind the next barrier.
__device__ inline void collect_loads(const RankHead& head, PlannerShared& shared) {
  constexpr int32_t kBatch = 4;  // loads in flight a thread
  const DeviceHeadParams& params = head.params;
  const PayloadView payload = PayloadView::of(head.self);
  int32_t* const loads = head.at(params.fields.loads);
  const ExpertGroups groups(params.num_experts);
  for (int32_t expert = groups.first; groups.group < groups.count && expert < params.num_experts;
       expert += groups.width) {
    uint32_t sum = 0;
#pragma unroll 1
    for (int32_t first = groups.group; first < params.num_ranks; first += kBatch * groups.count) {
      uint32_t rows[kBatch];
#pragma unroll
      for (int32_t u = 0; u < kBatch; ++u) {
        const int32_t p = first + u * groups.count;
        rows[u] = p < params.num_ranks ? payload.at(p, expert) : 0;
      }
#pragma unroll
      for (int32_t u = 0; u < kBatch; ++u) {
        const int32_t p = first + u * groups.count;
        sum += rows[u];
        if (p < params.num_ranks) {
          loads[p * params.num_experts + expert] = static_cast<int32_t>(rows[u]);
        }
      }
    }
    shared.partial()[groups.place(groups.group, expert)] = sum;
  }
  __syncthreads();
  for (auto expert = static_cast<int32_t>(threadIdx.x); expert < params.num_experts;
       expert += blockDim.x) {
    uint64_t rows = 0;
#pragma unroll 4
    for (int32_t g = 0; g < groups.count; ++g) rows += shared.partial()[groups.place(g, expert)];
    shared.rows[expert] = static_cast<uint32_t>(rows);
  }
}

// One thread: how the launch ended, also to the host if something went wrong.
__device__ inline void store_result(const DeviceRank& self, const DeviceHeadParams& params,
                                    HeadOutcome outcome, uint32_t num_dropped) {
  HeadResult& result = *self.own(params.fields.result);
  HeadStatus& status = params.statuses[self.local_idx];
  result.outcome = outcome;
  result.epoch = self.epoch;
  result.dropped_rows = num_dropped;
  if (num_dropped > 0) {
    result.dropped_total += num_dropped;
    status.dropped_total = result.dropped_total;
  }
  if (outcome == HeadOutcome::kTooManyRows) status.too_many_rows = 1;
}

// All threads: plan and work list are empty.
__device__ inline void clear_plan(const DeviceRank& self, const DeviceHeadFields& fields) {
  auto* const words = reinterpret_cast<uint32_t*>(self.own(fields.plan));
  if (threadIdx.x < sizeof(PlanHeader) / sizeof(uint32_t)) words[threadIdx.x] = 0;
  if (threadIdx.x == 0) *self.own(fields.work) = {.rank = self.rank};
}

// The plan up to its last instance in shared memory: many short reads follow.
__device__ inline PlanView stage_plan(const DeviceRank& self, const DeviceHeadParams& params,
                                      std::byte* memory) {
  PlanView plan = params.plan;
  const auto* const from = reinterpret_cast<const uint32_t*>(self.own(params.fields.plan));
  auto* const to = reinterpret_cast<uint32_t*>(memory);
  const auto num_words = static_cast<int32_t>(plan.instances_end / sizeof(uint32_t));
#pragma unroll 2
  for (auto i = static_cast<int32_t>(threadIdx.x); i < num_words; i += blockDim.x) to[i] = from[i];
  __syncthreads();
  plan.bytes = memory;
  plan.block_rows = reinterpret_cast<const PlanHeader*>(memory)->block_rows;
  return plan;
}

// What follows the planner.
template <class Planner>
__device__ void finish_plan(const DeviceRank& self, const DeviceHeadParams& params,
                            const Planner& planner, PlannerShared& shared) {
  const DeviceHeadFields& fields = params.fields;
  // A load that travels with the plan's.
  const HeadOutcome outcome = planner.outcome(self.own(fields.report));
  const PlanView plan = stage_plan(self, params, shared.behind());
  if (outcome == HeadOutcome::kPlanned) {
    const WorkListView out = {self.own(fields.work), self.own(fields.parts)};
    if (params.num_experts <= Planner::kThreads) {
      build_work_list<1>(plan, shared.rows, self.rank, params.order, out, shared.scan);
    } else {
      constexpr int32_t kExperts = HeadCta<Planner::kThreads>::kExperts;
      build_work_list<kExperts>(plan, shared.rows, self.rank, params.order, out, shared.scan);
    }
  } else {
    clear_plan(self, fields);
  }
  if (threadIdx.x == 0) store_result(self, params, outcome, shared.num_dropped);
}

// The CTA that plans, from the first count to the end of the launch.
template <class Planner>
__device__ void run_planner(const DeviceContext& context, const RankHead& head,
                            const Planner& planner, std::byte* memory) {
  auto& shared = *reinterpret_cast<PlannerShared*>(memory);
  const DeviceHeadParams& params = head.params;
  if (threadIdx.x == 0) shared.num_dropped = 0;
  if (!enter_with_counts<Planner::kThreads>(head, shared)) {
    clear_plan(head.self, params.fields);
    if (threadIdx.x == 0) {
      store_result(head.self, params, HeadOutcome::kNotEntered, shared.num_dropped);
    }
    return end_launch(head.self);
  }
  collect_loads(head, shared);
  __syncthreads();  // the sums have been read
  planner(head.at(params.fields.loads), params.resident, head.at(params.fields.plan),
          head.at(params.fields.report), shared.behind());
  __syncthreads();
  const DeviceRank self = shared.saved(context);
  finish_plan(self, params, planner, shared);
  end_launch(self);
}

}  // namespace device_head

// Bytes of dynamic shared memory of a CTA, for a planner that takes planner_bytes.
inline size_t head_shared_bytes(const DeviceHeadParams& params, int32_t num_threads,
                                size_t planner_bytes) {
  const size_t behind =
      std::max({planner_bytes, params.plan.instances_end, kGroupSums * sizeof(uint64_t)});
  return std::max(SortShared::bytes(params.num_experts, num_threads),
                  sizeof(device_head::PlannerShared) + behind);
}

// The launch of a head, all of it: called by all CTAs, at least two a rank.
template <class Planner>
__device__ void run_head(const DeviceContext& context, const DeviceHeadParams& params,
                         const Planner& planner) {
  extern __shared__ uint4 memory[];
  auto* const shared = reinterpret_cast<std::byte*>(memory);
  const DeviceRank self = begin_launch(context);
  const device_head::RankHead head = {self, params};
  if (self.cta == self.num_ctas - 1) {
    return device_head::run_planner(context, head, planner, shared);
  }
  if (self.cta < head.chunks().num_chunks) {
    device_head::run_chunk<Planner::kThreads>(head, shared);
  }
  end_launch(self);
}

}  // namespace megaflux
