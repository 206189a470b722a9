#include "megaflux/plan/baselines/placement_planner.h"

#include <algorithm>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/plan/legality.h"
#include "megaflux/plan/residents.h"

namespace megaflux {

PlacementPlanner::PlacementPlanner(PlanConfig config)
    : config_(std::move(config)), builder_(config_, 1) {
  replica_slots_ = config_.dims.replica_slots;
}

void PlacementPlanner::place(const LoadTable& loads) {
  const std::vector<int64_t>& history = config_.baselines.history;
  if (!history.empty() && !placement_.owner_of.empty()) return;
  begin_placement();
  copies_.clear();
  for (const DomainProblem& problem : builder_.domains()) {
    experts_.clear();
    weights_.clear();
    for (int32_t e = 0; e < config_.dims.num_experts; ++e) {
      if (!std::binary_search(problem.ranks.begin(), problem.ranks.end(), config_.owner_of[e])) {
        continue;
      }
      experts_.push_back(e);
      weights_.push_back(history.empty() ? loads.totals()[e] : history[e]);
    }
    if (experts_.empty()) continue;
    place_domain({.ranks = problem.ranks, .experts = experts_, .weights = weights_}, copies_);
  }
  placement_.assign(copies_, config_.owner_of);
  replica_slots_ =
      std::max(config_.dims.replica_slots, slots_needed(placement_, config_.dims.num_ranks));
}

// Replicas of experts with rows, and what every rank has to do.
void PlacementPlanner::draft_replicas(const LoadTable& loads) {
  rows_.resize(placement_.copy_rank.size());
  split(loads, placement_, rows_);
  replicas_.clear();
  costs_.assign(config_.dims.num_ranks, RankCost{});
  for (int32_t e = 0; e < config_.dims.num_experts; ++e) {
    const int32_t owner = placement_.owner_of[e];
    costs_[owner].load_blocks += loads.totals()[e];
    costs_[owner].owned_blocks += loads.totals()[e];
    if (config_.baselines.history.empty() && owner != config_.owner_of[e]) {
      costs_[owner].copies_in += 1;
      costs_[config_.owner_of[e]].copies_out += 1;
    }
    if (loads.totals()[e] == 0) continue;
    const std::span<const int32_t> copies = placement_.copies_of(e);
    const size_t first_replica = replicas_.size();
    for (size_t i = 1; i < copies.size(); ++i) {
      if (copies[i] == owner) continue;
      const int32_t rows = rows_[placement_.copy_begin[e] + i];
      const auto same = std::find_if(replicas_.begin() + first_replica, replicas_.end(),
                                     [&](const DraftReplica& r) { return r.rank == copies[i]; });
      if (same != replicas_.end()) {
        same->num_blocks += rows;
      } else {
        replicas_.push_back({.expert = e, .rank = copies[i], .num_blocks = rows});
      }
    }
    for (size_t i = first_replica; i < replicas_.size(); ++i) {
      RankCost& host = costs_[replicas_[i].rank];
      host.load_blocks += replicas_[i].num_blocks;
      host.replicas_in += 1;
      costs_[owner].load_blocks -= replicas_[i].num_blocks;
      costs_[owner].owned_blocks -= replicas_[i].num_blocks;
      costs_[owner].replicas_out += 1;
    }
  }
}

int64_t PlacementPlanner::latest_finish(const DomainProblem& problem) const {
  int64_t latest = 0;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    const RankCost& cost = costs_[problem.ranks[r]];
    const int64_t load = cost.load_blocks + int64_t{problem.lambda_blocks} * cost.replicas_out;
    latest = std::max(latest, problem.finish(r, static_cast<int32_t>(load)));
  }
  return latest;
}

uint64_t PlacementPlanner::predict_ns(std::span<const DomainProblem> domains, bool is_fixed) {
  const int64_t unit = config_.dims.block_rows;
  std::vector<RankCost> ranks;
  for (const DomainProblem& problem : domains) {
    for (int32_t r = 0; r < problem.num_ranks; ++r) {
      RankCost cost = costs_[problem.ranks[r]];
      if (is_fixed) {
        cost = {.owned_blocks = problem.fixed_load[r], .load_blocks = problem.fixed_load[r]};
      }
      const int64_t finish = problem.finish(r, static_cast<int32_t>(cost.load_blocks));
      cost.finish_blocks = ceil_div(finish, unit);
      cost.load_blocks = ceil_div(cost.load_blocks, unit);
      cost.owned_blocks = ceil_div(cost.owned_blocks, unit);
      ranks.push_back(cost);
    }
  }
  return layer_ns(*config_.cost, ranks);
}

void PlacementPlanner::assign(std::span<const int32_t> resident, const PlanReport& report,
                              Plan& plan) {
  const std::span<const DomainProblem> domains = builder_.domains();
  int64_t latest = 0;
  for (const DomainProblem& problem : domains) latest = std::max(latest, latest_finish(problem));
  const bool is_cost = config_.objective == Objective::kCost;
  PlanDims dims = config_.dims;
  dims.block_rows = 1;
  dims.replica_slots = replica_slots_;
  plan.assign({.dims = dims,
               .owner_of = placement_.owner_of,
               .blocks = builder_.blocks(),
               .replicas = replicas_,
               .resident = resident,
               .objective = is_cost ? *report.predicted_ns : static_cast<uint64_t>(latest)});
}

void PlacementPlanner::plan(const LoadTable& loads, std::span<const int32_t> resident, Plan& plan,
                            PlanReport& report) {
  check_residents(config_.dims, resident);
  const bool has_plan = builder_.measure(loads);
  report = PlanReport();
  report.orphans.assign(builder_.orphans().begin(), builder_.orphans().end());
  if (!has_plan) {
    plan = Plan();
    return;
  }
  for (const DomainProblem& problem : builder_.domains()) {
    report.tau = std::max(report.tau, problem.tau);
  }
  place(loads);
  draft_replicas(loads);
  report.slots_needed = slots_needed(placement_, config_.dims.num_ranks);
  report.moved_owners = moved_owners(placement_, config_.owner_of);
  if (config_.cost) {
    // Replicas that the step itself asked for have to be copied.
    if (config_.baselines.history.empty()) {
      for (RankCost& cost : costs_) {
        cost.copies_in += cost.replicas_in;
        cost.copies_out += cost.replicas_out;
      }
    }
    report.predicted_ns = predict_ns(builder_.domains(), false);
    report.predicted_fixed_ns = predict_ns(builder_.domains(), true);
  }
  resident = widened_residents(config_.dims, resident, replica_slots_, wide_resident_);
  assign(resident, report, plan);
  MF_INVARIANT(is_legal(plan, loads, config_as_planned(config_, plan), resident),
               planner_name(config_.planner), " made a plan that is not legal");
}

}  // namespace megaflux
