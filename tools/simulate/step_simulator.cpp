#include "simulate/step_simulator.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/work_list.h"
#include "megaflux/plan/plan_stats.h"

namespace megaflux::simulate {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kFullSpeed = 1024;

StepSetting checked(StepSetting setting) {
  PlanConfig& config = setting.plan;
  check_config(config);
  if (config.owner_of.empty()) {
    config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  }
  return setting;
}

}  // namespace

StepSimulator::StepSimulator(StepSetting setting)
    : setting_(checked(std::move(setting))),
      builder_(setting_.plan, setting_.plan.dims.block_rows) {
  const auto& active = config().active;
  num_active_ = active.empty() ? config().dims.num_ranks
                               : std::count_if(active.begin(), active.end(),
                                               [](uint8_t is_active) { return is_active != 0; });
  start_planner();
}

void StepSimulator::start_planner() {
  planner_ = make_planner(config());
}

void StepSimulator::set_history(std::vector<int64_t> loads) {
  const PlannerKind kind = config().planner;
  MF_CHECK(kind == PlannerKind::kEplb || kind == PlannerKind::kLplb,
           "history: ", planner_name(kind),
           " has no use for loads of earlier steps, eplb and lplb have");
  MF_CHECK(!loads.empty(), "history: 0 loads, ", config().dims.num_experts, " expected");
  setting_.plan.baselines.history = std::move(loads);
  start_planner();
  std::vector<int64_t> held = held_experts();
  if (!held_.empty()) {
    const auto is_fresh = [&](int64_t place) {
      return !std::binary_search(held_.begin(), held_.end(), place);
    };
    placed_copies_ += static_cast<int32_t>(std::count_if(held.begin(), held.end(), is_fresh));
  }
  held_ = std::move(held);
}

int32_t StepSimulator::pass_step() {
  return std::exchange(placed_copies_, 0);
}

// A plan lists no replicas of experts without rows; this step has rows for all that can run, and
// for every copy of them.
std::vector<int64_t> StepSimulator::held_experts() {
  const PlanDims& dims = config().dims;
  std::vector<int64_t> totals(dims.num_experts, dims.num_ranks);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const auto& active = config().active;
    if (!active.empty() && active[config().owner_of[e]] == 0) totals[e] = 0;
  }
  planner_->plan(LoadTable::from_totals(dims.num_ranks, totals), {}, plan_, report_);
  std::vector<int64_t> held;
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan_.instances_of(e)) {
      held.push_back(int64_t{e} * dims.num_ranks + instance.rank);
    }
  }
  return held;
}

const StepFigures& StepSimulator::simulate(const LoadTable& loads) {
  using Clock = std::chrono::steady_clock;
  figures_ = StepFigures();
  const auto begin = Clock::now();
  planner_->plan(loads, {}, plan_, report_);
  const auto end = Clock::now();
  figures_.plan_us = std::chrono::duration<double, std::micro>(end - begin).count();
  figures_.total_rows = loads.total_rows();
  figures_.kappa = kappa(loads);
  figures_.has_plan = report_.has_plan();
  measure_fixed(loads);
  if (!figures_.has_plan) {
    load_rows_.assign(config().dims.num_ranks, 0);
    return figures_;
  }
  measure_plan(loads);
  if (config().cost) predict(loads);
  return figures_;
}

double StepSimulator::imbalance_of(std::span<const int64_t> rows) const {
  const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  if (total == 0) return 1;
  const int64_t most = *std::max_element(rows.begin(), rows.end());
  return static_cast<double>(most * num_active_) / static_cast<double>(total);
}

void StepSimulator::measure_fixed(const LoadTable& loads) {
  const PlanDims& dims = config().dims;
  load_rows_fixed_.assign(dims.num_ranks, 0);
  padded_rows_fixed_.assign(dims.num_ranks, 0);
  int64_t remote = loads.total_rows();
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const int32_t owner = config().owner_of[e];
    load_rows_fixed_[owner] += loads.totals()[e];
    padded_rows_fixed_[owner] += round_up(int64_t{loads.totals()[e]}, int64_t{kTileRows});
    remote -= loads.rows(owner, e);
  }
  figures_.imbalance_fixed = imbalance_of(load_rows_fixed_);
  figures_.peak_rows_fixed =
      *std::max_element(padded_rows_fixed_.begin(), padded_rows_fixed_.end());
  if (loads.has_sources()) figures_.remote_rows_fixed = remote;
}

// One walk over the plan: rows of every rank, what moved, and what each rank has to do.
void StepSimulator::measure_plan(const LoadTable& loads) {
  const PlanDims& dims = config().dims;
  const int32_t plan_block_rows = plan_.dims().block_rows;
  load_rows_.assign(dims.num_ranks, 0);
  padded_rows_.assign(dims.num_ranks, 0);
  costs_.assign(dims.num_ranks, RankCost{});
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const int32_t owner = config().owner_of[e];
    const int32_t plan_owner = plan_.owner_of()[e];
    for (const Instance& instance : plan_.instances_of(e)) {
      const int64_t rows =
          loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, plan_block_rows);
      const int64_t blocks = ceil_div(rows, int64_t{dims.block_rows});
      load_rows_[instance.rank] += rows;
      padded_rows_[instance.rank] += round_up(rows, int64_t{kTileRows});
      RankCost& host = costs_[instance.rank];
      host.load_blocks += blocks;
      const bool is_moved = instance.rank != owner;  // the owner has the weights, whatever its part
      if (is_moved) figures_.moved_rows += rows;
      if (is_moved && !is_history()) {
        ++figures_.copies;
        ++host.copies_in;
        ++costs_[owner].copies_out;
      } else if (instance.slot < 0) {
        host.owned_blocks += blocks;
      }
      if (instance.slot < 0) continue;
      ++host.replicas_in;
      ++costs_[plan_owner].replicas_out;
    }
  }
  figures_.imbalance = imbalance_of(load_rows_);
  figures_.replicas = plan_.num_replicas();
  if (is_history()) figures_.copies = pass_step();
  figures_.slots_needed = report_.slots_needed;
  figures_.moved_owners = report_.moved_owners;
  figures_.peak_rows = *std::max_element(padded_rows_.begin(), padded_rows_.end());
  if (setting_.shape) figures_.moved_bytes = figures_.copies * setting_.shape->expert_bytes();
  if (loads.has_sources()) measure_traffic(loads);
}

void StepSimulator::measure_traffic(const LoadTable& loads) {
  const int32_t num_ranks = config().dims.num_ranks;
  const auto largest_pair = [num_ranks](std::span<const int64_t> traffic) {
    int64_t most = 0;
    for (int32_t source = 0; source < num_ranks; ++source) {
      for (int32_t host = 0; host < num_ranks; ++host) {
        const int64_t rows = traffic[static_cast<size_t>(source) * num_ranks + host];
        if (source != host) most = std::max(most, rows);
      }
    }
    return most;
  };
  traffic_fixed_.assign(static_cast<size_t>(num_ranks) * num_ranks, 0);
  for (int32_t source = 0; source < num_ranks; ++source) {
    const std::span<const int32_t> rows = loads.rows_of_source(source);
    int64_t* to = traffic_fixed_.data() + static_cast<size_t>(source) * num_ranks;
    for (size_t e = 0; e < rows.size(); ++e) to[config().owner_of[e]] += rows[e];
  }
  const std::vector<int64_t> traffic = traffic_rows(plan_, loads);
  figures_.remote_rows = loads.total_rows();
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    *figures_.remote_rows -= traffic[static_cast<size_t>(rank) * num_ranks + rank];
  }
  figures_.pair_rows = largest_pair(traffic);
  figures_.pair_rows_fixed = largest_pair(traffic_fixed_);
}

// Nanoseconds of the slowest rank, without a planner.
uint64_t StepSimulator::slowest_ns(bool is_fixed) {
  uint64_t slowest = 0;
  for (const DomainProblem& problem : builder_.domains()) {
    for (int32_t r = 0; r < problem.num_ranks; ++r) {
      RankCost cost = costs_[problem.ranks[r]];
      if (is_fixed) {
        cost = {.owned_blocks = problem.fixed_load[r], .load_blocks = problem.fixed_load[r]};
      }
      cost.finish_blocks = problem.finish(r, static_cast<int32_t>(cost.load_blocks));
      slowest = std::max(slowest, rank_ns(*config().cost, cost));
    }
  }
  return slowest;
}

// All rows and all other work, shared out to the last row by speed.
uint64_t StepSimulator::ideal_ns(int64_t total_rows) const {
  const int64_t block_rows = config().dims.block_rows;
  int64_t rows = total_rows, speed = 0;
  for (const DomainProblem& problem : builder_.domains()) {
    for (int32_t r = 0; r < problem.num_ranks; ++r) {
      rows += problem.is_uniform ? 0 : problem.base[r] * block_rows;
      speed += problem.is_uniform ? int64_t{kFullSpeed} : problem.speed[r];
    }
  }
  const Wide work = Wide(static_cast<uint64_t>(rows)) * kFullSpeed * config().cost->block_ps;
  const Wide rate = Wide(static_cast<uint64_t>(block_rows * speed)) * 1000;
  return static_cast<uint64_t>((work + rate - 1) / rate);
}

void StepSimulator::predict(const LoadTable& loads) {
  const CostModel& cost = *config().cost;
  builder_.measure(loads);
  uint64_t planning_ns = cost.plan_ns;
  // Round-robin over a placement needs no counts of other ranks; lplb solves for every step.
  const bool is_placed = config().planner == PlannerKind::kEplb && is_history();
  if (config().planner == PlannerKind::kFixed || is_placed) planning_ns = 0;
  if (report_.gate == GateDecision::kPreGate || report_.gate == GateDecision::kFewRows) {
    planning_ns = cost.pre_gate_ns;
  }
  figures_.planned_ns = slowest_ns(false) + planning_ns;
  figures_.fixed_ns = slowest_ns(true);
  int64_t tau = 0;
  for (const DomainProblem& problem : builder_.domains()) tau = std::max(tau, problem.tau);
  RankCost bound{.finish_blocks = tau};
  figures_.second_ideal_ns = rank_ns(cost, bound);
  figures_.ideal_ns = ideal_ns(loads.total_rows());
}

}  // namespace megaflux::simulate
