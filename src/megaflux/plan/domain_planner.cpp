#include "megaflux/plan/domain_planner.h"

#include <algorithm>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/plan/cost_rules.h"
#include "megaflux/plan/legality.h"
#include "megaflux/plan/residents.h"

namespace megaflux {
DomainPlanner::DomainPlanner(PlanConfig config, int32_t unit_rows)
    : config_(std::move(config)),
      unit_rows_(unit_rows),
      builder_(config_, unit_rows),
      scorer_(config_, config_.dims.block_rows / unit_rows) {
  replicas_.reserve(static_cast<size_t>(config_.dims.num_ranks) * config_.dims.replica_slots);
}

bool DomainPlanner::pre_gate_refuses(std::span<const int32_t> resident) const {
  const int64_t unit = config_.dims.block_rows / unit_rows_;
  int64_t finish = 0, tau = 0, cover = 0;
  bool is_uniform = true;
  for (const DomainProblem& problem : builder_.domains()) {
    finish = std::max(finish, problem.max_fixed_finish());
    tau = std::max(tau, problem.tau);
    is_uniform = is_uniform && problem.is_uniform;
    for (const int32_t load : problem.fixed_load) cover = std::max<int64_t>(cover, load);
  }
  const bool is_held =
      std::any_of(resident.begin(), resident.end(), [](int32_t e) { return e >= 0; });
  return megaflux::pre_gate_refuses(
      cost_times(*config_.cost), {.gain_blocks = ceil_div(std::max<int64_t>(0, finish - tau), unit),
                                  .cover_blocks = cover / unit,
                                  .most_blocks = ceil_div(cover, unit),
                                  .least_blocks = is_uniform ? tau / unit : 0,
                                  .copy_is_free = is_held || !is_uniform});
}

DomainPlanner::Decision DomainPlanner::decide(const LoadTable& loads,
                                              std::span<const int32_t> resident) {
  Decision decision;
  const bool is_cost = config_.objective == Objective::kCost && has_gates();
  replicas_.clear();
  if (searches() && loads.total_rows() < config_.min_forward_rows) {
    decision.gate = GateDecision::kFewRows;
  } else if (searches() && is_cost && pre_gate_refuses(resident)) {
    decision.gate = GateDecision::kPreGate;
  } else if (searches()) {
    solve_domains(loads, resident, decision);
    if (is_cost) {
      decision.gate = replicas_.empty() ? GateDecision::kFixed : GateDecision::kReplicate;
    }
    return decision;
  }
  // Fixed placement without a search.
  for (const DomainProblem& problem : builder_.domains()) {
    decision.objective =
        std::max(decision.objective, static_cast<uint64_t>(problem.max_fixed_finish()));
    if (config_.cost) decision.ns = std::max(decision.ns, scorer_.predict_ns(problem.view(), {}));
  }
  if (config_.cost) {
    decision.ns -= config_.cost->plan_ns;
    if (searches()) decision.ns += config_.cost->pre_gate_ns;
    decision.fixed_ns = decision.ns;
    if (config_.objective == Objective::kCost) decision.objective = decision.ns;
  }
  return decision;
}

void DomainPlanner::solve_domains(const LoadTable& loads, std::span<const int32_t> resident,
                                  Decision& decision) {
  const std::span<const DomainProblem> domains = builder_.domains();
  for (size_t d = 0; d < domains.size(); ++d) {
    const DomainProblem& problem = domains[d];
    DomainSolution solution;
    if (problem.total_blocks > 0) {
      builder_.arrange(loads, resident, d);
      solution = solve(problem);
    } else if (config_.objective == Objective::kCost) {
      solution.objective = scorer_.predict_ns(problem.view(), {});
    } else {
      solution.objective = static_cast<uint64_t>(problem.max_fixed_finish());
    }
    append(problem, solution);
    if (d == 0 || solution.objective > decision.objective) {
      decision.objective = solution.objective;
      decision.search_id = solution.search_id;
    }
    if (config_.cost) {
      decision.ns = std::max(decision.ns, scorer_.predict_ns(problem.view(), solution.replicas));
      decision.fixed_ns = std::max(decision.fixed_ns, scorer_.predict_ns(problem.view(), {}));
    }
  }
}

void DomainPlanner::append(const DomainProblem& problem, const DomainSolution& solution) {
  for (const SearchReplica& replica : solution.replicas) {
    if (replica.blocks == 0) continue;
    replicas_.push_back(
        {problem.experts[replica.expert], problem.ranks[replica.rank], replica.blocks});
  }
}

int32_t DomainPlanner::slots_needed() {
  slots_used_.assign(config_.dims.num_ranks, 0);
  for (const DraftReplica& replica : replicas_) ++slots_used_[replica.rank];
  return *std::max_element(slots_used_.begin(), slots_used_.end());
}

// Only baselines need more slots than there are; the copy is made when that happens first.
const PlanConfig& DomainPlanner::config_with_slots(int32_t replica_slots) {
  if (replica_slots == config_.dims.replica_slots) return config_;
  if (wide_config_.owner_of.empty()) wide_config_ = config_;
  wide_config_.dims.replica_slots = replica_slots;
  return wide_config_;
}

void DomainPlanner::plan(const LoadTable& loads, std::span<const int32_t> resident, Plan& plan,
                         PlanReport& report) {
  check_residents(config_.dims, resident);
  loads_ = &loads;
  const bool has_plan = builder_.measure(loads);
  report.orphans.assign(builder_.orphans().begin(), builder_.orphans().end());
  report.gate = GateDecision::kNotAsked;
  report.tau = 0;
  report.predicted_ns.reset();
  report.predicted_fixed_ns.reset();
  report.slots_needed = report.moved_owners = 0;
  if (!has_plan) {
    plan = Plan();
    return;
  }
  for (const DomainProblem& problem : builder_.domains()) {
    report.tau = std::max(report.tau, problem.tau);
  }
  const Decision decision = decide(loads, resident);
  const bool refused =
      decision.gate != GateDecision::kNotAsked && decision.gate != GateDecision::kReplicate;
  report.slots_needed = slots_needed();
  PlanDims dims = config_.dims;
  dims.block_rows = unit_rows_;
  dims.replica_slots = std::max(dims.replica_slots, report.slots_needed);
  resident = widened_residents(config_.dims, resident, dims.replica_slots, wide_resident_);
  plan.assign({.dims = dims,
               .owner_of = config_.owner_of,
               .blocks = builder_.blocks(),
               .replicas = replicas_,
               .resident = resident,
               .flags = static_cast<uint16_t>(refused ? kPlanGateRefused : 0),
               .search_id = decision.search_id,
               .objective = decision.objective});
  report.gate = decision.gate;
  if (config_.cost) {
    report.predicted_ns = decision.ns;
    report.predicted_fixed_ns = decision.fixed_ns;
  }
  MF_INVARIANT(is_legal(plan, loads, config_with_slots(dims.replica_slots), resident),
               planner_name(config_.planner), " made a plan that is not legal");
}

}  // namespace megaflux
