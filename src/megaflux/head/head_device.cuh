// The head inside a kernel: from topk_ids in device memory to row maps, plan and work list of every
// rank of the device, without the host. docs/kernels/head.md draws who waits for whom.
//
//   CTAs 0 ... chunks - 1   count their chunk | sort it | map the sources
//   all but the last        clear counters, once all ranks have entered
//   the last CTA            one warp enters | sum the counts | tell every rank | plan | work list
//
// The planner comes as a functor, so that this room's kernel, a fused one and tests share the code.
// `shared` is its dynamic shared memory, 16-byte aligned.
//   static constexpr int32_t kThreads;  // of every CTA here
//   // The CTA's first threads, before anything is known of the step.
//   __device__ void prepare(int32_t num_threads, std::byte* shared) const;
//   // One thread, any number of times; atomic.
//   __device__ void add_rows(int64_t rows, int32_t expert, std::byte* shared) const;
//   // All threads of the CTA; the answer in each of them.
//   __device__ HeadOutcome operator()(const int32_t* resident, std::byte* plan, std::byte* report,
//                                     std::byte* shared) const;
//   // After it, for a planned step: the plan, header aside, that it left in shared memory.
//   __device__ PlanView staged(PlanView plan, std::byte* shared) const;
//   size_t shared_bytes() const;
//   // Shared memory from there on is free until operator().
//   __host__ __device__ size_t scratch_offset() const;
// Barriers stand between prepare, add_rows and operator(). What the latter writes to device memory
// is whole behind the barrier that follows it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "megaflux/comm/entry_warp_device.cuh"
#include "megaflux/comm/row_map_device.cuh"
#include "megaflux/head/device_head_params.h"
#include "megaflux/head/residency_hash_device.cuh"
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
  __device__ ChunkCounts chunk_counts() const {
    return {reinterpret_cast<uint64_t*>(at(params.fields.chunk_counts)), chunks().num_chunks,
            params.num_experts + 1};
  }
  // In the memory of the rank whose heap begins at `base`.
  __device__ RankCounts rank_counts(std::byte* base) const {
    const int64_t bank = self.epoch & 1u;
    return {reinterpret_cast<uint64_t*>(at_base(base, params.fields.rank_counts)) +
                bank * params.num_ranks * params.num_experts,
            params.num_ranks, params.num_experts};
  }
  __device__ RowMapView row_map() const {
    return {at(params.fields.source_begin), at(params.fields.route_offsets), params.num_ranks,
            params.num_experts};
  }
};

// Shared memory of the CTA that plans. The planner's own comes behind it; what that does not need
// yet is scratch.
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
};
static_assert(sizeof(PlannerShared) % 16 == 0);

// Keeps the counts of one source in the load table, and writes what the row maps say of it. Waits
// for those of all sources before, too. False in the threads that met it: the group has aborted.
__device__ inline bool map_counts(const RankHead& head, int32_t source, uint64_t* scan) {
  constexpr int32_t kBatch = 4;  // loads in flight a thread
  RankCounts counts = head.rank_counts(head.self.base);
  counts.num_rows = source + 1;
  int32_t* const loads = head.at(head.params.fields.loads) + source * head.params.num_experts;
  bool is_sound = true;
  map_source(source, head.row_map(), scan, [&](int32_t expert) {
    uint32_t upto = 0, last = 0;
#pragma unroll 1
    for (int32_t first = 0; is_sound && first <= source; first += kBatch) {
      uint32_t rows[kBatch];
      is_sound = await_counts(head.self, counts, first, 1, expert, rows);
#pragma unroll
      for (int32_t b = 0; b < kBatch; ++b) {
        upto += rows[b];
        if (first + b == source) last = rows[b];
      }
    }
    loads[expert] = static_cast<int32_t>(last);
    return SourceRows{last, upto - last};
  });
  return is_sound;
}

// A CTA with a chunk; ends when all ranks have entered, or when the group has aborted.
template <int32_t kThreads>
__device__ void run_chunk(const RankHead& head, std::byte* memory) {
  const DeviceHeadFields& fields = head.params.fields;
  const SortShared shared(memory);
  ChunkSorter<kThreads> sorter(head.self, head.routing(), head.params.num_experts, head.chunks(),
                               shared);
  sorter.count();
  const ChunkCounts counts = head.chunk_counts();
  sorter.publish(counts);
  // Nobody reads the list: every launch that did has ended. Peers see it after the next entry.
  sorter.sort(counts, head.at(fields.routes.offsets), head.at(fields.routes.pairs));
  // Beside the first look of the others at the counts of ranks; it seldom has an expert itself.
  if (HeadCta<kThreads>::is_last_warp()) see_entries(head.self);
  for (int32_t source = head.self.cta; source < head.params.num_ranks;
       source += head.chunks().num_chunks) {
    if (!__syncthreads_and(map_counts(head, source, shared.scan))) return;
  }
}

// From the first count to everybody's. Of the CTA that plans, the last warp enters, the one before
// counts what was dropped, and the others sum.
template <class Planner>
class CountExchange {
  static constexpr int32_t kEntryWarp = HeadCta<Planner::kThreads>::kWarps - 1;
  static constexpr int32_t kDroppedWarp = kEntryWarp - 1;

 public:
  __device__ CountExchange(const RankHead& head, const Planner& planner, PlannerShared& shared)
      : head_(head),
        planner_(planner),
        shared_(shared),
        partial_(reinterpret_cast<uint64_t*>(shared.behind() + planner.scratch_offset())),
        groups_(head.params.num_experts, kDroppedWarp * kWarpThreads) {}

  __device__ static bool is_entry_warp() { return HeadCta<Planner::kThreads>::is_last_warp(); }

  // Ends with c_e in shared.rows and in the planner. kEntered in all threads, or what else the
  // entry ended with.
  __device__ EntryOutcome run() {
    EntryOutcome outcome = EntryOutcome::kEntered;
    // The last two warps meet as often as the others do: racecheck counts that, and compares.
    if (is_entry_warp()) {
      const uint64_t digest = post_entry();
      WarpsOfCta{kEntryWarp, 1, 2}.meet();
      outcome = await_entries_by_warp(head_.self, digest);
      if (outcome == EntryOutcome::kRefused) release_waiters();
    } else if (threadIdx.x / kWarpThreads == kDroppedWarp) {
      WarpsOfCta{kDroppedWarp, 1, 3}.meet();
      if (!note_dropped()) outcome = EntryOutcome::kAborted;
    } else {
      if (threadIdx.x == 0) shared_.save(head_.self);
      if (!exchange()) outcome = EntryOutcome::kAborted;
    }
    if (__syncthreads_and(outcome == EntryOutcome::kEntered)) [[likely]] {
      return EntryOutcome::kEntered;
    }
    const bool is_aborted = __syncthreads_or(outcome == EntryOutcome::kAborted);
    return is_aborted ? EntryOutcome::kAborted : EntryOutcome::kRefused;
  }

 private:
  __device__ uint64_t post_entry() const {
    return post_entry_by_warp(head_.self, {.op = LaunchOp::kHead,
                                           .layer = head_.params.layer,
                                           .plan_hash = residency_hash(head_.params),
                                           .config_hash = head_.params.config_hash});
  }

  // The first warps: the counts of this rank to all, and those of all. False: the group has
  // aborted.
  __device__ bool exchange() {
    const DeviceRank& self = head_.self;
    if (self.is_silent) return false;
    constexpr int32_t kThreads = kDroppedWarp * kWarpThreads;
    planner_.prepare(kThreads, shared_.behind());
    for (auto expert = static_cast<int32_t>(threadIdx.x); expert < head_.params.num_experts;
         expert += kThreads) {
      shared_.rows[expert] = 0;
    }
    const bool is_sound =
        sum_counts(self, head_.chunk_counts(), groups_, 0,
                   [&](int32_t expert, uint64_t rows) { partial_[groups_.place(expert)] = rows; });
    if (!WarpsOfCta{0, kDroppedWarp}.meet_and(is_sound)) return false;
    tell();
    return sum_counts(self, head_.rank_counts(self.base), groups_, 0,
                      [&](int32_t expert, uint64_t rows) {
                        planner_.add_rows(static_cast<int64_t>(rows), expert, shared_.behind());
                        atomicAdd(shared_.rows + expert, static_cast<uint32_t>(rows));
                      });
  }

  __device__ bool note_dropped() {
    uint32_t num_dropped = 0;
    // For the warp that enters, too.
    bool is_sound = __all_sync(~0u, !is_aborted(head_.self));
    is_sound = is_sound && sum_dropped(head_.self, head_.chunk_counts(), num_dropped);
    if (threadIdx.x % kWarpThreads == 0) shared_.num_dropped = num_dropped;
    return is_sound;
  }

  // The rows of this rank to every rank; each group has peers of its own. Nobody reads the words of
  // two launches ago: this rank has seen everybody enter the launch in between.
  __device__ void tell() {
    const DeviceRank& self = head_.self;
    const DeviceHeadParams& params = head_.params;
    for (int32_t expert = groups_.first;
         groups_.group < groups_.count && expert < params.num_experts; expert += groups_.width) {
      const auto rows = static_cast<uint32_t>(groups_.total(partial_, expert));
#pragma unroll 1
      for (int32_t step = groups_.group; step < params.num_ranks; step += groups_.count) {
        const int32_t next = self.rank + 1 + step;  // right neighbour first, as in post_entry
        const int32_t peer = next < params.num_ranks ? next : next - params.num_ranks;
        std::byte* const base = device_protocol::base_of(self.group, peer);
        publish_count(self, head_.rank_counts(base), self.rank, expert, rows);
      }
    }
  }

  // The warp that enters, if ranks disagree: a peer that makes no head sends no counts. Whoever of
  // this rank waits for them goes on; what comes of it is not used.
  __device__ void release_waiters() {
    const RankCounts counts = head_.rank_counts(head_.self.base);
#pragma unroll 1
    for (int32_t rank = 0; rank < counts.num_rows; ++rank) {
#pragma unroll 1
      for (auto expert = static_cast<int32_t>(threadIdx.x % kWarpThreads); expert < counts.stride;
           expert += kWarpThreads) {
        publish_count(head_.self, counts, rank, expert, 0);
      }
    }
  }

  const RankHead& head_;
  const Planner& planner_;
  PlannerShared& shared_;
  uint64_t* partial_;  // [kGroupSums]
  ExpertGroups groups_;
};

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

// What follows the planner, whose first warp may still be at the plan's header.
template <class Planner>
__device__ void finish_plan(const DeviceRank& self, const DeviceHeadParams& params,
                            const Planner& planner, HeadOutcome outcome, PlannerShared& shared) {
  constexpr int32_t kFirstWarp = 1;
  constexpr int32_t kThreads = Planner::kThreads - kFirstWarp * kWarpThreads;
  constexpr int32_t kExperts = ceil_div(kMaxDeviceExperts, kThreads);
  const DeviceHeadFields& fields = params.fields;
  if (outcome != HeadOutcome::kPlanned) {
    clear_plan(self, fields);
  } else {
    const WorkListSource source = {.plan = planner.staged(params.plan, shared.behind()),
                                   .expert_rows = shared.rows,
                                   .rank = self.rank,
                                   .order = params.order};
    const WorkListView out = {self.own(fields.work), self.own(fields.parts)};
    if (params.num_experts <= kThreads) {
      const WarpsOfCta warps = work_list_warps<1>(params.num_experts, kFirstWarp);
      if (warps.has_me()) build_work_list<1>(source, out, warps, shared.scan);
    } else {
      const WarpsOfCta warps = work_list_warps<kExperts>(params.num_experts, kFirstWarp);
      if (warps.has_me()) build_work_list<kExperts>(source, out, warps, shared.scan);
    }
  }
  if (threadIdx.x == 0) store_result(self, params, outcome, shared.num_dropped);
}

// The CTA that plans, from the first count to the end of the launch.
template <class Planner>
__device__ void run_planner(const DeviceContext& context, const RankHead& head,
                            const Planner& planner, std::byte* memory) {
  using Exchange = CountExchange<Planner>;
  auto& shared = *reinterpret_cast<PlannerShared*>(memory);
  const DeviceHeadParams& params = head.params;
  const EntryOutcome entry = Exchange(head, planner, shared).run();
  if (entry != EntryOutcome::kEntered) [[unlikely]] {
    if (Exchange::is_entry_warp()) pass_entry_by_warp(head.self, entry);
    clear_plan(head.self, params.fields);
    if (threadIdx.x == 0) {
      store_result(head.self, params, HeadOutcome::kNotEntered, shared.num_dropped);
    }
    return end_launch(head.self);
  }
  const HeadOutcome outcome = planner(params.resident, head.at(params.fields.plan),
                                      head.at(params.fields.report), shared.behind());
  const DeviceRank self = shared.saved(context);
  // In a head nobody waits for it; here it costs no time.
  if (Exchange::is_entry_warp()) pass_entry_by_warp(self, EntryOutcome::kEntered);
  finish_plan(self, params, planner, outcome, shared);
  end_launch(self);
}

}  // namespace device_head

// Bytes of dynamic shared memory of a CTA.
template <class Planner>
size_t head_shared_bytes(const DeviceHeadParams& params, const Planner& planner) {
  const size_t scratch = planner.scratch_offset() + kGroupSums * sizeof(uint64_t);
  return std::max(SortShared::bytes(params.num_experts, Planner::kThreads),
                  sizeof(device_head::PlannerShared) + std::max(planner.shared_bytes(), scratch));
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
  // Behind a launch that was given up peers may still read the list, and nobody enters.
  if (!self.is_silent) {
    if (self.cta < head.chunks().num_chunks) {
      device_head::run_chunk<Planner::kThreads>(head, shared);
    } else if (HeadCta<Planner::kThreads>::is_last_warp()) {
      see_entries(self);
    }
  }
  __syncthreads();
  // If silent too: how many CTAs have ended a launch is a counter, without which no epoch moves on.
  device_protocol::clear_share(self, self.num_ctas - 1);
  end_launch(self);
}

}  // namespace megaflux
