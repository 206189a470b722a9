#include "explain/step_facts.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "megaflux/base/math.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/problem.h"

namespace megaflux::explain {
namespace {

// The configuration whose least sizes the planner honours.
PlanConfig config_with_own_sizes(const PlanConfig& config) {
  PlanConfig own = config;
  if (config.planner == PlannerKind::kQuota || is_baseline(config.planner)) own.min_copy_blocks = 1;
  if (is_baseline(config.planner)) own.min_rows_per_replica = 1;
  return own;
}

void add_domain(const DomainProblem& problem, StepFacts& facts) {
  const auto index = static_cast<int32_t>(facts.domains.size());
  const PlanConfig& config = facts.config();
  facts.domains.push_back({.id = config.domain_of.empty() ? 0 : config.domain_of[problem.ranks[0]],
                           .ranks = problem.ranks,
                           .total_blocks = problem.total_blocks,
                           .tau = problem.tau,
                           .accepted = problem.accepted});
  facts.lambda = problem.lambda_blocks;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    RankFacts& rank = facts.ranks[problem.ranks[r]];
    rank.is_active = true;
    rank.domain = index;
    rank.base = problem.base[r];
    rank.speed = problem.speed[r];
  }
  for (int32_t e = 0; e < problem.num_experts; ++e) {
    facts.experts[problem.experts[e]].least_fresh = problem.least_fresh[e];
  }
}

void measure_problem(StepFacts& facts) {
  const PlanConfig config = config_with_own_sizes(facts.config());
  ProblemBuilder builder(config, facts.block_rows);
  builder.measure(facts.input.loads);
  for (RankFacts& rank : facts.ranks) rank.is_active = false;
  for (size_t d = 0; d < builder.domains().size(); ++d) {
    builder.arrange(facts.input.loads, {}, d);
    add_domain(builder.domains()[d], facts);
  }
}

void measure_loads(StepFacts& facts) {
  const LoadTable& loads = facts.input.loads;
  const Plan& plan = facts.plan;
  for (int32_t e = 0; e < plan.dims().num_experts; ++e) {
    ExpertFacts& expert = facts.experts[e];
    expert.rows = loads.totals()[e];
    expert.blocks = loads.blocks(e, facts.block_rows);
    expert.owner_before = facts.config().owner_of[e];
    expert.owner = plan.owner_of()[e];
    facts.ranks[expert.owner_before].fixed_load += expert.blocks;
    facts.ranks[expert.owner_before].fixed_rows += expert.rows;
    facts.ranks[expert.owner].owned_load += expert.blocks;
    for (const Instance& instance : plan.instances_of(e)) {
      RankFacts& host = facts.ranks[instance.rank];
      host.load += instance.num_blocks;
      host.rows +=
          loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, facts.block_rows);
      if (instance.slot < 0) {
        expert.kept = instance.num_blocks;
        continue;
      }
      ++expert.replicas;
      ++host.slots_used;
      ++facts.ranks[expert.owner].replicas_out;
    }
  }
}

void measure_finish(StepFacts& facts) {
  for (DomainFacts& domain : facts.domains) {
    domain.max = -1;
    for (const int32_t r : domain.ranks) {
      RankFacts& rank = facts.ranks[r];
      rank.fixed_finish = facts.finish_with(r, rank.fixed_load);
      rank.owned_finish = facts.finish_with(r, rank.owned_load);
      rank.finish = facts.finish_with(r, facts.charged(r));
      domain.max_fixed = std::max(domain.max_fixed, rank.fixed_finish);
      if (rank.finish > domain.max) {
        domain.max = rank.finish;
        domain.slowest = r;
      }
    }
  }
}

void list_moves(StepFacts& facts) {
  const Plan& plan = facts.plan;
  for (int32_t e = 0; e < plan.dims().num_experts; ++e) {
    const ExpertFacts& expert = facts.experts[e];
    if (expert.owner != expert.owner_before && expert.blocks > 0) {
      facts.walk.push_back({.kind = MoveKind::kOwner,
                            .expert = e,
                            .from = expert.owner_before,
                            .to = expert.owner,
                            .blocks = expert.blocks,
                            .rows = expert.rows});
    }
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot < 0) continue;
      const size_t slot =
          static_cast<size_t>(instance.rank) * plan.dims().replica_slots + instance.slot;
      facts.walk.push_back({.kind = MoveKind::kReplica,
                            .expert = e,
                            .from = expert.owner,
                            .to = instance.rank,
                            .blocks = instance.num_blocks,
                            .rows = facts.input.loads.rows_in_blocks(
                                e, instance.first_block, instance.num_blocks, facts.block_rows),
                            .is_resident = plan.slot_resident()[slot] != 0});
    }
  }
}

void order_walk(StepFacts& facts) {
  const auto key = [&](const Move& move) {
    const RankFacts& donor = facts.ranks[move.from];
    const int64_t excess = donor.owned_finish - facts.domain_of(move.from).tau;
    return std::tuple(move.kind, move.kind == MoveKind::kOwner ? 0 : -excess,
                      move.kind == MoveKind::kOwner ? 0 : move.from, -move.blocks, move.expert,
                      move.to);
  };
  std::sort(facts.walk.begin(), facts.walk.end(),
            [&](const Move& a, const Move& b) { return key(a) < key(b); });
  std::vector<int64_t> loads;
  for (const RankFacts& rank : facts.ranks) loads.push_back(rank.fixed_load);
  for (Move& move : facts.walk) {
    loads[move.from] -= move.blocks;
    loads[move.to] += move.blocks;
    move.from_load = loads[move.from];
    move.to_load = loads[move.to];
  }
}

double imbalance(const StepFacts& facts, int64_t RankFacts::*rows) {
  int64_t most = 0, total = 0, num_active = 0;
  for (const RankFacts& rank : facts.ranks) {
    most = std::max(most, rank.*rows);
    total += rank.*rows;
    num_active += rank.is_active;
  }
  return total == 0 ? 1.0 : static_cast<double>(most * num_active) / static_cast<double>(total);
}

// The largest bound under changed tables.
int64_t tau_of(const StepFacts& facts, PlanConfig config) {
  ProblemBuilder builder(config, facts.block_rows);
  builder.measure(facts.input.loads);
  int64_t tau = 0;
  for (const DomainProblem& problem : builder.domains()) tau = std::max(tau, problem.tau);
  return tau;
}

}  // namespace

int64_t StepFacts::max_finish() const {
  int64_t most = 0;
  for (const DomainFacts& domain : domains) most = std::max(most, domain.max);
  return most;
}

int64_t StepFacts::max_tau() const {
  int64_t most = 0;
  for (const DomainFacts& domain : domains) most = std::max(most, domain.tau);
  return most;
}

int64_t StepFacts::finish_with(int32_t rank, int64_t blocks) const {
  return ceil_div((ranks[rank].base + blocks) * 1024, ranks[rank].speed);
}

int64_t StepFacts::capacity(int32_t rank, int64_t time) const {
  return time * ranks[rank].speed / 1024 - ranks[rank].base;
}

bool StepFacts::holds(int32_t expert, int32_t rank) const {
  const auto instances = plan.instances_of(expert);
  return std::any_of(instances.begin(), instances.end(),
                     [&](const Instance& instance) { return instance.rank == rank; });
}

StepFacts gather_facts(StepInput input) {
  StepFacts facts;
  facts.input = std::move(input);
  PlanConfig& config = facts.input.config;
  const auto planner = make_planner(config);
  if (config.owner_of.empty()) {
    config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  }
  planner->plan(facts.input.loads, facts.input.resident, facts.plan, facts.report);
  if (!facts.has_plan()) return facts;
  facts.block_rows = facts.plan.dims().block_rows;
  facts.ranks.resize(config.dims.num_ranks);
  facts.experts.resize(config.dims.num_experts);
  measure_problem(facts);
  measure_loads(facts);
  measure_finish(facts);
  list_moves(facts);
  order_walk(facts);
  facts.kappa = kappa(facts.input.loads);
  facts.imbalance_fixed = imbalance(facts, &RankFacts::fixed_rows);
  facts.imbalance = imbalance(facts, &RankFacts::rows);
  return facts;
}

int64_t tau_without_domains(const StepFacts& facts) {
  PlanConfig config = facts.config();
  config.domain_of.clear();
  return tau_of(facts, std::move(config));
}

int64_t tau_with_all_ranks(const StepFacts& facts) {
  PlanConfig config = facts.config();
  config.active.clear();
  return tau_of(facts, std::move(config));
}

}  // namespace megaflux::explain
