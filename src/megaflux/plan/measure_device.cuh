// From the load table to the problem of every domain, by one block: rows and blocks of each expert,
// loads of fixed placement, experts sorted inside their owner.
#pragma once

#include <cstdint>

#include "megaflux/plan/planner_memory_device.cuh"
#include "megaflux/plan/search/warp_lanes_device.cuh"

namespace megaflux {

// Zeroes what is counted into. The block's first `num_threads` threads.
__device__ inline void clear_counts(const DevicePlannerParams& params, int32_t num_threads,
                                    PlannerMemory& memory) {
  const auto t = static_cast<int32_t>(threadIdx.x);
  if (t == 0) memory.facts = PlannerFacts{};
  MF_UNROLL(1)
  for (int32_t e = t; e < params.dims.num_experts; e += num_threads) memory.rows[e] = 0;
  MF_UNROLL(1)
  for (int32_t q = t; q < params.num_places; q += num_threads) memory.fixed_load[q] = 0;
  MF_UNROLL(1)
  for (int32_t r = t; r < params.dims.num_ranks; r += num_threads) memory.rank_blocks[r] = 0;
}

// Entries of the tables of the configuration at one index: of an expert, a place, a domain.
struct TableEntries {
  int32_t owned = 0;
  int32_t owner_of = 0;
  int32_t owner_place = 0;
  int32_t first_owned = 0;
  int32_t rank = 0;
  DeviceDomain domain;
};

__device__ inline TableEntries load_entries(const DevicePlannerParams& params, int32_t i) {
  TableEntries entries;
  if (i < params.dims.num_experts) {
    entries.owned = params.owned[i];
    entries.owner_of = params.owner_of[i];
    entries.owner_place = params.owner_place[i];
  }
  if (i < params.num_places + params.num_domains) entries.first_owned = params.first_owned[i];
  if (i < params.num_places) entries.rank = params.ranks[i];
  if (i < params.num_domains) entries.domain = params.domains[i];
  return entries;
}

// Brings the tables near. The block's first `num_threads` threads; `first` are the entries of the
// thread's own index, loaded before.
__device__ inline void copy_tables(const DevicePlannerParams& params, const TableEntries& first,
                                   int32_t num_threads, PlannerMemory& memory) {
  const int32_t end = max(params.dims.num_experts, params.num_places + params.num_domains);
  MF_UNROLL(1)
  for (auto i = static_cast<int32_t>(threadIdx.x); i < end; i += num_threads) {
    const TableEntries entries =
        i == static_cast<int32_t>(threadIdx.x) ? first : load_entries(params, i);
    if (i < params.dims.num_experts) {
      memory.owned[i] = static_cast<int16_t>(entries.owned);
      memory.owner_of[i] = static_cast<int16_t>(entries.owner_of);
      memory.owner_place[i] = static_cast<int16_t>(entries.owner_place);
    }
    if (i < params.num_places + params.num_domains) memory.first_owned[i] = entries.first_owned;
    if (i < params.num_places) memory.ranks[i] = static_cast<int16_t>(entries.rank);
    if (i < params.num_domains) memory.domains[i] = entries.domain;
  }
}

// Rows of expert e from every `step`-th source from `first` on, kInFlight loads on their way
// together; below 0 if one of them is.
template <int32_t kInFlight>
__device__ int64_t load_rows(const int32_t* loads, const PlanDims& dims, int32_t e, int32_t first,
                             int32_t step) {
  int64_t sum = 0;
  int32_t signs = 0;
  const int32_t* from = loads + static_cast<int64_t>(first) * dims.num_experts + e;
  const int64_t stride = static_cast<int64_t>(step) * dims.num_experts;
  MF_UNROLL(1)
  for (int32_t p = first; p < dims.num_ranks; p += kInFlight * step) {
    int32_t rows[kInFlight];
#pragma unroll
    for (int32_t k = 0; k < kInFlight; ++k) {
      rows[k] = p + k * step < dims.num_ranks ? __ldcg(from) : 0;
      from += stride;
    }
#pragma unroll
    for (int32_t k = 0; k < kInFlight; ++k) {
      signs |= rows[k];
      sum += rows[k];
    }
  }
  return signs < 0 ? -1 : sum;
}

// Which rows a thread sums: threads are dealt out over experts first and then over sources.
struct RowShare {
  int32_t expert = 0;   // the first; E = none
  int32_t next = 0;     // experts on
  int32_t source = 0;   // the first
  int32_t sources = 1;  // sources on
};

__device__ inline RowShare share_rows(const PlanDims& dims) {
  const auto t = static_cast<int32_t>(threadIdx.x);
  const int32_t width = round_up(dims.num_experts, 32);
  const int32_t groups = block_threads() / width;
  if (groups <= 1) return {t, block_threads(), 0, 1};
  const int32_t group = t / width, e = t - group * width;
  return {group < groups && e < dims.num_experts ? e : dims.num_experts, width, group, groups};
}

__device__ inline int64_t load_rows(const int32_t* loads, const PlanDims& dims,
                                    const RowShare& share, int32_t e) {
  if (dims.num_ranks <= 4 * share.sources) {
    return load_rows<4>(loads, dims, e, share.source, share.sources);
  }
  return load_rows<16>(loads, dims, e, share.source, share.sources);
}

// Adds to the rows of expert e. Rows below 0 (-1 stands for any), or rows that pass 31 bits, are an
// error.
__device__ inline void add_rows(int64_t rows, int32_t e, PlannerMemory& memory) {
  constexpr uint32_t kMost = 0x7fffffffu;
  const bool is_wrong = rows < 0 || rows > kMost;
  const auto add = static_cast<uint32_t>(is_wrong ? 0 : rows);
  const uint32_t before = atomicAdd(reinterpret_cast<uint32_t*>(memory.rows) + e, add);
  if (is_wrong || before + add > kMost) memory.facts.error = 1;
}

// Adds them up over the sources. `first` are the rows of the thread's first expert, loaded before.
// Rows that are negative, or pass 31 bits, are an error. `loads` may have been written by other
// ranks in this launch, so it is never read through the read-only path.
__device__ inline void sum_rows(const DevicePlannerParams& params, const int32_t* loads,
                                const RowShare& share, int64_t first, PlannerMemory& memory) {
  MF_UNROLL(1)
  for (int32_t e = share.expert; e < params.dims.num_experts; e += share.next) {
    if (e != share.expert) first = load_rows(loads, params.dims, share, e);
    add_rows(first, e, memory);
  }
}

// Blocks of every expert, loads of fixed placement, sums of the step, orphans. By place.
__device__ inline void count_blocks(const DevicePlannerParams& params, PlannerMemory& memory) {
  const int32_t num_experts = params.dims.num_experts;
  MF_UNROLL(1)
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < round_up(num_experts, 32);
       i += block_threads()) {
    const bool exists = i < num_experts;
    const int32_t e = memory.owned[exists ? i : 0];
    const auto rows = static_cast<uint32_t>(exists ? memory.rows[e] : 0);
    const auto blocks =
        static_cast<int32_t>(ceil_div(rows, static_cast<uint32_t>(params.dims.block_rows)));
    const int32_t place = exists ? memory.owner_place[e] : -1;
    if (exists) memory.blocks_of[e] = memory.blocks_at[i] = blocks;
    if (place >= 0) atomicAdd(memory.fixed_load + place, blocks);
    const uint32_t high = __reduce_add_sync(kWholeWarp, rows >> 16);
    const uint32_t low = __reduce_add_sync(kWholeWarp, rows & 0xffff);
    const uint32_t orphans = __ballot_sync(kWholeWarp, exists && place < 0 && blocks > 0);
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&memory.facts.rows_high, high);
      atomicAdd(&memory.facts.rows_low, low);
      if (orphans != 0) atomicAdd(&memory.facts.num_orphans, __popc(orphans));
    }
  }
}

// Rows of the step. After count_blocks.
__device__ inline int64_t total_rows(PlannerMemory& memory) {
  return (static_cast<int64_t>(memory.facts.rows_high) << 16) + memory.facts.rows_low;
}

// The domain's experts, each owner's by blocks descending, then id. An expert finds its place by
// counting those before it; experts without rows are last, where no search takes them.
__device__ inline void sort_experts(const DevicePlannerParams& params, int32_t d,
                                    PlannerMemory& memory) {
  const DeviceDomain domain = memory.domains[d];
  const int32_t* const blocks_at = memory.blocks_at + domain.first_expert;
  const int32_t* const first_owned = memory.first_owned + domain.first_rank + d;
  const auto t = static_cast<int32_t>(threadIdx.x);
  MF_UNROLL(1)
  for (int32_t r = t; r <= domain.num_ranks; r += block_threads()) {
    memory.domain_first[r] = first_owned[r];
    if (r < domain.num_ranks) memory.domain_load[r] = memory.fixed_load[domain.first_rank + r];
  }
  MF_UNROLL(1)
  for (int32_t i = t; i < domain.num_experts; i += block_threads()) {
    const int32_t e = memory.owned[domain.first_expert + i];
    const int32_t owner = memory.owner_place[e] - domain.first_rank;
    const int32_t blocks = blocks_at[i];
    const int32_t first = first_owned[owner], end = first_owned[owner + 1];
    int32_t sorted = first;
#pragma unroll 8
    for (int32_t j = first; j < end; ++j) sorted += blocks_at[j] - (j < i ? 0 : 1) >= blocks;
    memory.place_of[e] = static_cast<int16_t>(sorted);
    memory.ids[sorted] = static_cast<int16_t>(e);
    memory.blocks[sorted] = blocks;
    memory.owner[sorted] = owner;
    if (params.has_least) {
      const int32_t last_rows = memory.rows[e] - (blocks - 1) * params.dims.block_rows;
      const int32_t least =
          least_replica(last_rows, params.min_rows_per_replica, params.dims.block_rows);
      memory.least_present(params)[sorted] = least;
      memory.least_fresh(params)[sorted] = max(least, params.min_copy_blocks);
    }
  }
}

// Marks the ranks of a domain that hold an expert of it in a slot already. After sort_experts.
__device__ inline void mark_resident(const DevicePlannerParams& params, const DeviceDomain& domain,
                                     const int32_t* resident, PlannerMemory& memory) {
  const int32_t slots = params.dims.replica_slots;
  MF_UNROLL(1)
  for (auto i = static_cast<int32_t>(threadIdx.x); i < domain.num_ranks * slots;
       i += block_threads()) {
    const int32_t r = i / slots;
    const int32_t held = __ldcg(resident + memory.ranks[domain.first_rank + r] * slots + i % slots);
    if (held < 0 || held >= params.dims.num_experts || memory.blocks_of[held] == 0) continue;
    const int32_t owner = memory.owner_place[held] - domain.first_rank;
    if (owner < 0 || owner >= domain.num_ranks || owner == r) continue;
    auto* words = reinterpret_cast<unsigned long long*>(memory.resident(params));
    atomicOr(words + memory.place_of[held] * params.rank_words + r / 64, 1ull << (r % 64));
    memory.facts.has_resident = 1;
  }
}

// Forgets the residents of the domain before. With a barrier before mark_resident.
__device__ inline void clear_resident(const DevicePlannerParams& params, PlannerMemory& memory) {
  if (threadIdx.x == 0) memory.facts.has_resident = 0;
  MF_UNROLL(1)
  for (auto w = static_cast<int32_t>(threadIdx.x); w < params.dims.num_experts * params.rank_words;
       w += block_threads()) {
    memory.resident(params)[w] = 0;
  }
}

// The problem of a domain. Its experts are there after sort_experts and mark_resident.
template <class Lanes>
__device__ ProblemView view_domain(const DevicePlannerParams& params, int32_t d,
                                   PlannerMemory& memory) {
  const DeviceDomain domain = memory.domains[d];
  ProblemView view;
  view.num_ranks = domain.num_ranks;
  view.num_experts = domain.num_experts;
  view.most_owned = params.most_owned;
  view.replica_slots = params.dims.replica_slots;
  view.lambda_blocks = params.lambda_blocks;
  view.is_uniform = Lanes::kIsUniform || domain.is_uniform != 0;
  view.has_resident = !Lanes::kIsPlain && memory.facts.has_resident != 0;
  view.has_least = !Lanes::kIsPlain && params.has_least;
  view.rank_words = Lanes::kMaxRanks <= 64 ? 1 : params.rank_words;
  view.base = params.base + domain.first_rank;
  view.speed = params.speed + domain.first_rank;
  view.fixed_load = memory.domain_load;
  view.first_owned = memory.domain_first;
  view.owner = memory.owner;
  view.blocks = memory.blocks;
  view.least_fresh = memory.least_fresh(params);
  view.least_present = memory.least_present(params);
  view.resident = memory.resident(params);
  return view;
}

// Completes the numbers of a problem from its fixed loads; returns the largest finish of fixed
// placement.
template <class Lanes>
__device__ int64_t measure_domain(int32_t slack_ppm, ProblemView& problem) {
  int32_t total = 0;
  typename Lanes::Key most = 0;
  for (int32_t r = Lanes::first(); r < problem.num_ranks; r += Lanes::kCount) {
    const int32_t load = problem.fixed_load[r];
    total += load;
    most = max(most, static_cast<typename Lanes::Key>(problem.finish(r, load)));
  }
  problem.total_blocks = __reduce_add_sync(kWholeWarp, total);
  most = Lanes::max(most);
  problem.tau = least_common_finish(Lanes{}, problem, most);
  problem.accepted = scaled_up(problem.tau, slack_ppm);
  return most;
}

}  // namespace megaflux
