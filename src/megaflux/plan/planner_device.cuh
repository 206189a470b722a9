// The planner on the device: one block makes the plan that the host makes of the same loads, byte
// for byte. A kernel calls plan_on_device with the lanes that DevicePlanner chose
// (with_planner_lanes).
#pragma once

#include <cstdint>

#include "megaflux/plan/layout_device.cuh"
#include "megaflux/plan/measure_device.cuh"
#include "megaflux/plan/portfolio_device.cuh"

namespace megaflux {

using PlainLanes32 = WarpLanes<1, int32_t, true, false, true>;
using PlainLanes64 = WarpLanes<2, int32_t, true, false, true>;
using NarrowLanes32 = WarpLanes<1, int32_t, true, false, false>;
using NarrowLanes64 = WarpLanes<2, int32_t, true, false, false>;
using PlainCostLanes32 = WarpLanes<1, int32_t, true, true, true>;
using PlainCostLanes64 = WarpLanes<2, int32_t, true, true, true>;
using CostLanes32 = WarpLanes<1, int32_t, true, true, false>;
using CostLanes64 = WarpLanes<2, int32_t, true, true, false>;
using WideLanes128 = WarpLanes<4, int64_t, false, true, false>;

// Threads of the block that plans, whoever launches it: a warp for each of the 18 searches of a
// second wave. Lanes that need more registers a thread search in two rounds.
template <class Lanes>
inline constexpr int32_t kPlannerThreads = sizeof(typename Lanes::Key) == 8 ? 384 : 576;

// What all domains together say about the gates.
struct StepFacts {
  int64_t tau = 0;
  int64_t finish = 0;  // largest of fixed placement
  uint64_t fixed_objective = 0;
  bool is_uniform = true;
};

// What is known of the domains before they are searched; a warp a domain, the last warps first,
// since the first ones sort. After count_blocks.
template <class Lanes>
__device__ void measure_domains(const DevicePlannerParams& params, PlannerMemory& memory) {
  const int32_t num_warps = block_threads() / 32;
  MF_UNROLL(1)
  for (int32_t d = num_warps - 1 - static_cast<int32_t>(threadIdx.x / 32); d < params.num_domains;
       d += num_warps) {
    ProblemView problem = view_domain<Lanes>(params, d, memory);
    problem.fixed_load =
        memory.fixed_load + memory.domains[d].first_rank;  // perhaps not sorted yet
    const int64_t finish = measure_domain<Lanes>(params.slack_ppm, problem);
    uint64_t objective = static_cast<uint64_t>(finish);
    if constexpr (Lanes::kHasCosts) {
      if (params.objective == Objective::kCost) {
        objective = predict_ns<Lanes>(params, problem, [&](int32_t r) {
          return rank_cost<Lanes>(params, problem, r, problem.fixed_load[r], {});
        });
      }
    }
    if (Lanes::is_writer()) {
      memory.domain_facts[d] = {problem.tau, problem.accepted, finish, objective,
                                problem.total_blocks};
      atomicAdd(&memory.facts.total_blocks, problem.total_blocks);
    }
  }
}

// Every thread adds them up for itself. After measure_domains and a barrier.
__device__ inline StepFacts add_domains(const DevicePlannerParams& params, PlannerMemory& memory) {
  StepFacts step;
  MF_UNROLL(1)
  for (int32_t d = 0; d < params.num_domains; ++d) {
    const DomainFacts& facts = memory.domain_facts[d];
    step.fixed_objective = max(step.fixed_objective, facts.fixed_objective);
    step.finish = max(step.finish, facts.finish);
    step.tau = max(step.tau, facts.tau);
    step.is_uniform = step.is_uniform && memory.domains[d].is_uniform != 0;
  }
  return step;
}

// Whole warp.
template <class Lanes>
__device__ bool gate_refuses(const DevicePlannerParams& params, const int32_t* resident,
                             PlannerMemory& memory) {
  const StepFacts step = add_domains(params, memory);
  int32_t cover = 0;
  for (int32_t q = Lanes::first(); q < params.num_places; q += 32) {
    cover = max(cover, memory.fixed_load[q]);
  }
  cover = __reduce_max_sync(kWholeWarp, cover);
  bool is_held = false;
  const int32_t slots = params.dims.num_ranks * params.dims.replica_slots;
  for (int32_t i = Lanes::first(); resident != nullptr && i < slots; i += 32) {
    is_held = is_held || __ldcg(resident + i) >= 0;
  }
  is_held = __any_sync(kWholeWarp, is_held);
  const int64_t unit = Lanes::kIsUniform ? 1 : params.units;
  return pre_gate_refuses<CostNumber<Lanes>>(
      params.cost, {.gain_blocks = ceil_div(max(int64_t{0}, step.finish - step.tau), unit),
                    .cover_blocks = cover / unit,
                    .most_blocks = ceil_div(int64_t{cover}, unit),
                    .least_blocks = step.is_uniform ? step.tau / unit : 0,
                    .copy_is_free = is_held || !step.is_uniform});
}

// Decides one domain; its replicas are appended to the drafts. Whole block.
template <class Lanes>
__device__ void plan_domain(const DevicePlannerParams& params, int32_t d, PlannerMemory& memory) {
  const DomainFacts& facts = memory.domain_facts[d];
  ProblemView problem = view_domain<Lanes>(params, d, memory);
  problem.total_blocks = facts.total_blocks;
  problem.tau = facts.tau;
  problem.accepted = facts.accepted;
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  SearchView<Lanes> state(Lanes{}, problem,
                          memory.search<Lanes>(params, warp < params.num_searches ? warp : 0));
  if (warp < params.num_searches) state.reset();
  const bool is_cost = params.objective == Objective::kCost;
  const bool is_quota = params.planner == PlannerKind::kQuota;
  if (threadIdx.x == 0) {
    CandidateScore fixed;
    fixed.objective = fixed.reached = facts.fixed_objective;
    if (!is_cost && !is_quota) {
      fixed.reached = max(fixed.reached, static_cast<uint64_t>(problem.accepted));
    }
    post_score<Lanes>(fixed, kBestScore, memory.scores);
    memory.facts.domain_drafts = 0;
    memory.facts.domain_search_id = -1;
    memory.facts.domain_objective = fixed.objective;
  }
  const bool is_balanced =
      problem.total_blocks == 0 || (!is_cost && !is_quota && facts.finish <= problem.tau);
  if (!is_balanced && params.dims.replica_slots > 0) {
    run_members(params, memory.domains[d], facts.finish, state, memory);
  }
  if (threadIdx.x == 0) {
    PlannerFacts& all = memory.facts;
    all.num_drafts += all.domain_drafts;
    if (d == 0 || all.domain_objective > all.objective) {
      all.objective = all.domain_objective;
      all.search_id = all.domain_search_id;
    }
  }
  __syncthreads();
}

// Decides all domains, or refuses to search; returns what the gate said. Whole block.
template <class Lanes>
__device__ GateDecision decide(const DevicePlannerParams& params, const int32_t* resident,
                               PlannerMemory& memory) {
  const bool searches = params.planner != PlannerKind::kFixed;
  const bool is_cost = params.objective == Objective::kCost && searches;
  GateDecision gate = GateDecision::kNotAsked;
  if (searches && total_rows(memory) < params.min_forward_rows) {
    gate = GateDecision::kFewRows;
  }
  if constexpr (Lanes::kHasCosts) {
    if (gate == GateDecision::kNotAsked && is_cost) {
      // One warp: eighteen would wait for each other's instructions.
      if (threadIdx.x / 32 == 0) {
        memory.facts.is_refused = gate_refuses<Lanes>(params, resident, memory) ? 1 : 0;
      }
      __syncthreads();
      if (memory.facts.is_refused != 0) gate = GateDecision::kPreGate;
    }
  }
  if (gate == GateDecision::kNotAsked && searches) {
    MF_UNROLL(1)
    for (int32_t d = 0; d < params.num_domains; ++d) {
      if (d > 0) sort_experts(params, d, memory);  // the first one is
      if (resident != nullptr) clear_resident(params, memory);
      if (d > 0 || resident != nullptr) __syncthreads();
      if (resident != nullptr) {
        mark_resident(params, memory.domains[d], resident, memory);
        __syncthreads();
      }
      plan_domain<Lanes>(params, d, memory);
    }
    if (!is_cost) return gate;
    return memory.facts.num_drafts == 0 ? GateDecision::kFixed : GateDecision::kReplicate;
  }
  if (threadIdx.x == 0) {
    const bool is_time = params.objective == Objective::kCost;
    uint64_t objective =
        add_domains(params, memory).fixed_objective - (is_time ? params.cost.plan_ns : 0);
    if (is_cost) objective += params.cost.pre_gate_ns;
    memory.facts.objective = objective;
  }
  __syncthreads();
  return gate;
}

// What needs no loads: tables come near, and what is counted into is cleared. The block's first
// `num_threads` threads; ends without a barrier.
__device__ inline void prepare_plan(const DevicePlannerParams& params, int32_t num_threads,
                                    PlannerMemory& memory) {
  const TableEntries entries = load_entries(params, static_cast<int32_t>(threadIdx.x));
  clear_counts(params, num_threads, memory);
  copy_tables(params, entries, num_threads, memory);
}

// Makes the plan of the rows that memory holds, behind a barrier. Whole block. Returns the status
// in every thread; if it is kPlanned, the staged plan up to its header is whole for all of them.
template <class Lanes>
__device__ DevicePlanStatus plan_rows(const DevicePlannerParams& params, const int32_t* resident,
                                      std::byte* plan, DevicePlanReport* report,
                                      PlannerMemory& memory) {
  if constexpr (Lanes::kIsPlain) resident = nullptr;
  count_blocks(params, memory);
  __syncthreads();
  if (params.num_domains > 0) sort_experts(params, 0, memory);
  measure_domains<Lanes>(params, memory);
  __syncthreads();
  DevicePlanReport found = {.num_orphans = static_cast<int32_t>(memory.facts.num_orphans)};
  if (memory.facts.error != 0 || total_rows(memory) > INT32_MAX ||
      memory.facts.total_blocks > params.max_blocks) {
    found.status = DevicePlanStatus::kTooManyRows;
  } else if (found.num_orphans != 0) {
    found.status = DevicePlanStatus::kOrphans;
  }
  if (threadIdx.x == 0) {
    found.tau = add_domains(params, memory).tau;
    *report = found;  // now, since registers are scarce in what follows
  }
  if (found.status != DevicePlanStatus::kPlanned) return found.status;
  const GateDecision gate = decide<Lanes>(params, resident, memory);
  if (threadIdx.x == 0) report->gate = gate;
  const bool is_refused = gate != GateDecision::kNotAsked && gate != GateDecision::kReplicate;
  lay_out(params, static_cast<uint16_t>(is_refused ? kPlanGateRefused : 0), resident, memory, plan);
  return DevicePlanStatus::kPlanned;
}

// Makes the plan of one step. All threads of a block of kPlannerThreads<Lanes> call it, with
// params.shared_bytes of shared memory, 16-byte aligned. `loads` is [P, E] rows by source,
// `resident` [P s] or null (nothing is resident; always with plain lanes), `plan` has
// PlanLayout(params.dims).total_bytes and is 16-byte aligned; like `loads` they may be memory that
// other ranks wrote before a signal this block has seen. Ends with the report and, if its status is
// kPlanned, the plan written by this block; the caller orders what reads them.
//
// A kernel that sums the loads itself calls prepare_plan early, add_rows behind a barrier, and
// plan_rows behind another one, in the place of this.
template <class Lanes>
__device__ void plan_on_device(const DevicePlannerParams& params, const int32_t* loads,
                               const int32_t* resident, std::byte* plan, DevicePlanReport* report,
                               std::byte* shared) {
  PlannerMemory& memory = *reinterpret_cast<PlannerMemory*>(shared);
  const TableEntries entries = load_entries(params, static_cast<int32_t>(threadIdx.x));
  const RowShare share = share_rows(params.dims);
  const int64_t rows = share.expert < params.dims.num_experts
                           ? load_rows(loads, params.dims, share, share.expert)
                           : 0;
  clear_counts(params, block_threads(), memory);
  __syncthreads();
  sum_rows(params, loads, share, rows, memory);
  copy_tables(params, entries, block_threads(), memory);
  __syncthreads();
  plan_rows<Lanes>(params, resident, plan, report, memory);
}

// Calls f.template operator()<Lanes>() with the lanes of the parameters for steps with or without
// residents.
template <class F>
void with_planner_lanes(const DevicePlannerParams& params, bool has_residents, F&& f) {
  const bool is_plain = !has_residents && !params.has_least;
  switch (params.lanes) {
    case PlannerLanes::kNarrow32:
      if (is_plain) return f.template operator()<PlainLanes32>();
      return f.template operator()<NarrowLanes32>();
    case PlannerLanes::kNarrow64:
      if (is_plain) return f.template operator()<PlainLanes64>();
      return f.template operator()<NarrowLanes64>();
    case PlannerLanes::kCost32:
      if (is_plain) return f.template operator()<PlainCostLanes32>();
      return f.template operator()<CostLanes32>();
    case PlannerLanes::kCost64:
      if (is_plain) return f.template operator()<PlainCostLanes64>();
      return f.template operator()<CostLanes64>();
    case PlannerLanes::kWide128:
      return f.template operator()<WideLanes128>();
  }
}

}  // namespace megaflux
