#include "explain/counterfactual.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "explain/addition.h"

namespace megaflux::explain {
namespace {

constexpr std::array<std::string_view, 6> kCodes = {
    "one_slot_more", "one_slot_less", "undone", "barred", "one_replica_more", "other_owner",
};

Counterfactual plan_again(Counterfactual what, StepInput input) {
  const StepFacts then = gather_facts(std::move(input));
  what.has_plan = then.has_plan();
  if (!what.has_plan) return what;
  what.tau = then.max_tau();
  what.max = then.max_finish();
  what.replicas = then.plan.num_replicas();
  what.copies = then.plan.header().num_copies;
  return what;
}

// The residents with another number of slots a rank.
std::vector<int32_t> resized(const StepFacts& facts, int32_t slots) {
  const PlanDims& dims = facts.config().dims;
  const std::vector<int32_t>& resident = facts.input.resident;
  if (resident.empty()) return {};
  std::vector<int32_t> result(static_cast<size_t>(dims.num_ranks) * slots, -1);
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    for (int32_t slot = 0; slot < std::min(slots, dims.replica_slots); ++slot) {
      result[static_cast<size_t>(rank) * slots + slot] =
          resident[static_cast<size_t>(rank) * dims.replica_slots + slot];
    }
  }
  return result;
}

Counterfactual with_slots(const StepFacts& facts, Change change, int32_t slots) {
  StepInput input = facts.input;
  input.resident = resized(facts, slots);
  input.config.dims.replica_slots = slots;
  return plan_again({.change = change}, std::move(input));
}

Counterfactual of_this_plan(const StepFacts& facts, Change change, int32_t expert) {
  return {.change = change,
          .expert = expert,
          .tau = facts.max_tau(),
          .max = facts.max_finish(),
          .replicas = facts.plan.num_replicas(),
          .copies = facts.plan.header().num_copies};
}

// Blocks go back to the owner, which no longer pays lambda for the replicas.
Counterfactual undone(const StepFacts& facts, int32_t expert) {
  Counterfactual what = of_this_plan(facts, Change::kUndone, expert);
  const ExpertFacts& fact = facts.experts[expert];
  std::vector<int64_t> charged;
  for (size_t rank = 0; rank < facts.ranks.size(); ++rank) {
    charged.push_back(facts.charged(static_cast<int32_t>(rank)));
  }
  charged[fact.owner] += fact.moved() - facts.lambda * fact.replicas;
  for (const Move& move : facts.walk) {
    if (move.kind != MoveKind::kReplica || move.expert != expert) continue;
    charged[move.to] -= move.blocks;
    what.copies -= !move.is_resident;
  }
  what.replicas -= fact.replicas;
  what.max = 0;
  for (const DomainFacts& domain : facts.domains) {
    for (const int32_t rank : domain.ranks) {
      what.max = std::max(what.max, facts.finish_with(rank, charged[rank]));
    }
  }
  return what;
}

bool can_bar(const StepFacts& facts, int32_t expert) {
  // Other work may have this many rows at most (check_config).
  constexpr int64_t kMaxBaseRows = int64_t{1} << 30;
  const PlanConfig& config = facts.config();
  const int64_t pinned =
      facts.ranks[facts.experts[expert].owner].base + facts.experts[expert].blocks;
  return pinned <= kMaxBaseRows / facts.block_rows && !is_baseline(config.planner) &&
         config.planner != PlannerKind::kFixed && config.objective != Objective::kCost;
}

// The expert's rows leave the loads and become other work of its owner, in the plan's blocks.
Counterfactual barred(const StepFacts& facts, int32_t expert) {
  StepInput input = facts.input;
  PlanConfig& config = input.config;
  const int32_t units = config.dims.block_rows / facts.block_rows;
  config.dims.block_rows = facts.block_rows;
  config.lambda_blocks *= units;
  config.cost.reset();
  config.min_forward_rows = 0;
  config.base_blocks.resize(config.dims.num_ranks, 0);
  for (int32_t& base : config.base_blocks) base *= units;
  const ExpertFacts& fact = facts.experts[expert];
  config.base_blocks[fact.owner] += static_cast<int32_t>(fact.blocks);
  const int32_t num_ranks = config.dims.num_ranks, num_experts = config.dims.num_experts;
  std::vector<int32_t> rows;
  for (int32_t source = 0; source < num_ranks; ++source) {
    const auto own = input.loads.rows_of_source(source);
    rows.insert(rows.end(), own.begin(), own.end());
    rows[static_cast<size_t>(source) * num_experts + expert] = 0;
  }
  input.loads.assign(num_ranks, num_experts, rows);
  Counterfactual what = plan_again({.change = Change::kBarred, .expert = expert}, std::move(input));
  // The owner finishes no earlier than its other work and all of this expert.
  what.tau = std::max(what.tau, facts.finish_with(fact.owner, fact.blocks));
  return what;
}

std::optional<Counterfactual> one_more(const StepFacts& facts, int32_t expert) {
  const int32_t owner = facts.experts[expert].owner;
  const auto addition = best_addition(facts, expert, facts.ranks[owner].finish);
  if (!addition) return std::nullopt;
  Counterfactual what = of_this_plan(facts, Change::kOneReplicaMore, expert);
  what.rank = addition->rank;
  what.blocks = addition->blocks;
  what.max = finish_with_addition(facts, *addition);
  for (size_t d = 0; d < facts.domains.size(); ++d) {
    const bool is_own = static_cast<int32_t>(d) == facts.ranks[owner].domain;
    if (!is_own) what.max = std::max(what.max, facts.domains[d].max);
  }
  what.replicas += 1;
  what.copies += 1;
  return what;
}

std::optional<Counterfactual> other_owner(const StepFacts& facts, int32_t expert) {
  const int32_t owner = facts.experts[expert].owner_before;
  int32_t lightest = -1;
  for (const int32_t rank : facts.domain_of(owner).ranks) {
    if (rank == owner) continue;
    if (lightest < 0 || facts.ranks[rank].fixed_finish < facts.ranks[lightest].fixed_finish) {
      lightest = rank;
    }
  }
  if (lightest < 0) return std::nullopt;
  StepInput input = facts.input;
  input.config.owner_of[expert] = lightest;
  return plan_again({.change = Change::kOtherOwner, .expert = expert, .rank = lightest},
                    std::move(input));
}

}  // namespace

std::string_view code_of(Change change) {
  return kCodes[static_cast<size_t>(change)];
}

std::vector<Counterfactual> slot_counterfactuals(const StepFacts& facts) {
  const int32_t slots = facts.config().dims.replica_slots;
  std::vector<Counterfactual> list;
  if (slots < kMaxReplicaSlots) list.push_back(with_slots(facts, Change::kOneSlotMore, slots + 1));
  if (slots > 0) list.push_back(with_slots(facts, Change::kOneSlotLess, slots - 1));
  return list;
}

std::vector<Counterfactual> expert_counterfactuals(const StepFacts& facts, int32_t expert) {
  std::vector<Counterfactual> list;
  if (facts.experts[expert].rows == 0) return list;
  if (facts.experts[expert].is_replicated()) {
    list.push_back(undone(facts, expert));
    if (can_bar(facts, expert)) list.push_back(barred(facts, expert));
  }
  if (const auto more = one_more(facts, expert)) list.push_back(*more);
  if (const auto other = other_owner(facts, expert)) list.push_back(*other);
  return list;
}

}  // namespace megaflux::explain
