#include "explain/reasons.h"

#include <algorithm>
#include <array>

#include "explain/copy_rule.h"

namespace megaflux::explain {
namespace {

constexpr std::array<std::string_view, 9> kStepCodes = {
    "no_rows",    "fixed_planner", "few_rows", "pre_gate",       "gate_fixed",
    "replicated", "no_slots",      "balanced", "nothing_gained",
};
constexpr std::array<std::string_view, 9> kBoundCodes = {
    "at_bound", "within_slack",  "not_searched", "predicted_time", "alone_in_domain",
    "no_room",  "one_move_left", "no_free_slot", "least_sizes",
};
constexpr std::array<std::string_view, 23> kExpertCodes = {
    "relieves_owner",     "planners_rule",   "no_rows",
    "fixed_planner",      "few_rows",        "pre_gate",
    "gate_fixed",         "no_slots",        "owner_moved",
    "placed_by_rule",     "alone_in_domain", "too_small",
    "owner_within_bound", "owner_relieved",  "within_slack",
    "owner_not_slowest",  "no_room",         "no_free_slot",
    "too_few_blocks",     "lambda_not_paid", "prediction_not_lower",
    "tied_slowest",       "left_by_planner",
};

bool is_placement(PlannerKind planner) {
  return planner == PlannerKind::kEplb || planner == PlannerKind::kLplb;
}

// Predicted time decides instead of the largest finish.
bool is_by_time(const StepFacts& facts) {
  return facts.config().objective == Objective::kCost && !is_baseline(facts.config().planner);
}

// Planners that read the slack, under objectives that do.
bool has_slack(const StepFacts& facts) {
  return !is_baseline(facts.config().planner) && !is_by_time(facts) && facts.config().slack_ppm > 0;
}

bool is_left_alone(StepRule rule) {
  return rule == StepRule::kFixedPlanner || rule == StepRule::kFewRows ||
         rule == StepRule::kPreGate || rule == StepRule::kGateFixed;
}

int32_t num_at(const StepFacts& facts, const DomainFacts& domain, int64_t finish) {
  return static_cast<int32_t>(
      std::count_if(domain.ranks.begin(), domain.ranks.end(),
                    [&](int32_t rank) { return facts.ranks[rank].finish == finish; }));
}

// The lowest of the slowest ranks apart from `rank`.
int32_t slowest_other(const StepFacts& facts, int32_t rank) {
  int32_t slowest = -1;
  for (const int32_t other : facts.domain_of(rank).ranks) {
    if (other == rank) continue;
    if (slowest < 0 || facts.ranks[other].finish > facts.ranks[slowest].finish) slowest = other;
  }
  return slowest;
}

std::vector<int32_t> replicated_of(const StepFacts& facts, int32_t owner) {
  std::vector<int32_t> experts;
  for (size_t e = 0; e < facts.experts.size(); ++e) {
    const ExpertFacts& expert = facts.experts[e];
    if (expert.owner == owner && expert.moved() > 0) experts.push_back(static_cast<int32_t>(e));
  }
  std::stable_sort(experts.begin(), experts.end(), [&](int32_t a, int32_t b) {
    return facts.experts[a].moved() > facts.experts[b].moved();
  });
  return experts;
}

// Why nothing of `expert` moved off an owner that finishes after the bound.
void explain_overload(const StepFacts& facts, ExpertAnswer& answer) {
  const int32_t owner = facts.experts[answer.expert].owner;
  const int64_t finish = facts.ranks[owner].finish;
  const DomainFacts& domain = facts.domain_of(owner);
  answer.hosts = hosts_before(facts, owner, finish);
  answer.addition = best_addition(facts, answer.expert, finish);
  if (!is_by_time(facts)) {
    if (has_slack(facts) && finish <= domain.accepted) {
      answer.reason = ExpertReason::kWithinSlack;
      return;
    }
    if (finish < domain.max) {
      answer.reason = ExpertReason::kOwnerNotSlowest;
      answer.other_rank = domain.slowest;
      return;
    }
  }
  if (!answer.addition) {
    answer.reason = answer.hosts.num_with_room == 0            ? ExpertReason::kNoRoom
                    : answer.hosts.num_with_room_and_slot == 0 ? ExpertReason::kNoFreeSlot
                    : best_addition(facts, answer.expert, finish, Charge::kNoLambda)
                        ? ExpertReason::kLambdaNotPaid
                        : ExpertReason::kTooFewBlocks;
    return;
  }
  answer.reason = ExpertReason::kLeftByPlanner;
  if (is_by_time(facts)) {
    answer.predicted_ns = predicted_ns(facts, &*answer.addition);
    if (*answer.predicted_ns >= *facts.report.predicted_ns) {
      answer.reason = ExpertReason::kPredictionNotLower;
    }
  } else if (finish_with_addition(facts, *answer.addition) >= domain.max) {
    answer.reason = ExpertReason::kTiedSlowest;
    answer.other_rank = slowest_other(facts, owner);
  }
}

std::optional<ExpertReason> reason_of_step(const StepFacts& facts) {
  switch (step_rule(facts)) {
    case StepRule::kFixedPlanner:
      return ExpertReason::kFixedPlanner;
    case StepRule::kFewRows:
      return ExpertReason::kFewRows;
    case StepRule::kPreGate:
      return ExpertReason::kPreGate;
    case StepRule::kGateFixed:
      return ExpertReason::kGateFixed;
    case StepRule::kNoSlots:
      return ExpertReason::kNoSlots;
    default:
      return std::nullopt;
  }
}

void explain_absence(const StepFacts& facts, ExpertAnswer& answer) {
  const ExpertFacts& expert = facts.experts[answer.expert];
  const RankFacts& owner = facts.ranks[expert.owner];
  if (expert.rows == 0) {
    answer.reason = ExpertReason::kNoRows;
    return;
  }
  const DomainFacts& domain = facts.domain_of(expert.owner);
  if (const auto reason = reason_of_step(facts)) {
    answer.reason = *reason;
  } else if (expert.owner != expert.owner_before) {
    answer.reason = ExpertReason::kOwnerMoved;
  } else if (is_placement(facts.config().planner)) {
    answer.reason = ExpertReason::kPlacedByRule;
  } else if (domain.ranks.size() == 1) {
    answer.reason = ExpertReason::kAloneInDomain;
  } else if (owner.owned_finish <= domain.tau) {
    answer.reason = ExpertReason::kOwnerWithinBound;
  } else if (owner.finish <= domain.tau) {
    answer.reason = ExpertReason::kOwnerRelieved;
    answer.relieved_by = replicated_of(facts, expert.owner);
  } else if (expert.blocks < expert.least_fresh) {
    answer.reason = ExpertReason::kTooSmall;
  } else {
    explain_overload(facts, answer);
  }
}

// The first expert of `rank`, most blocks first, with a replica that lets both finish earlier.
std::optional<Addition> any_addition(const StepFacts& facts, int32_t rank, int64_t time) {
  std::optional<Addition> best;
  for (size_t e = 0; e < facts.experts.size(); ++e) {
    if (facts.experts[e].owner != rank || facts.experts[e].kept == 0) continue;
    const auto found = best_addition(facts, static_cast<int32_t>(e), time);
    if (found && (!best || found->worse() < best->worse())) best = found;
  }
  return best;
}

BoundReason bound_reason(const StepFacts& facts, const DomainFacts& domain, BoundAnswer& answer) {
  if (domain.max <= domain.tau) return BoundReason::kAtBound;
  if (has_slack(facts) && domain.max <= domain.accepted) return BoundReason::kWithinSlack;
  if (is_left_alone(step_rule(facts))) return BoundReason::kNotSearched;
  if (is_by_time(facts)) return BoundReason::kPredictedTime;
  if (domain.ranks.size() == 1) return BoundReason::kAloneInDomain;
  answer.hosts = hosts_before(facts, domain.slowest, domain.max);
  if (answer.hosts.num_with_room == 0) return BoundReason::kNoRoom;
  answer.shift = find_shift(facts, domain.slowest, domain.max);
  if (!answer.shift) answer.addition = any_addition(facts, domain.slowest, domain.max);
  if (answer.shift || answer.addition) return BoundReason::kOneMoveLeft;
  return answer.hosts.num_with_room_and_slot == 0 ? BoundReason::kNoFreeSlot
                                                  : BoundReason::kLeastSizes;
}

}  // namespace

std::string_view code_of(StepRule rule) {
  return kStepCodes[static_cast<size_t>(rule)];
}
std::string_view code_of(BoundReason reason) {
  return kBoundCodes[static_cast<size_t>(reason)];
}
std::string_view code_of(ExpertReason reason) {
  return kExpertCodes[static_cast<size_t>(reason)];
}

StepRule step_rule(const StepFacts& facts) {
  if (facts.input.loads.total_rows() == 0) return StepRule::kNoRows;
  if (facts.config().planner == PlannerKind::kFixed) return StepRule::kFixedPlanner;
  switch (facts.report.gate) {
    case GateDecision::kFewRows:
      return StepRule::kFewRows;
    case GateDecision::kPreGate:
      return StepRule::kPreGate;
    case GateDecision::kFixed:
      return StepRule::kGateFixed;
    case GateDecision::kNotAsked:
    case GateDecision::kReplicate:
      break;
  }
  if (!facts.walk.empty()) return StepRule::kReplicated;
  if (facts.plan.dims().replica_slots == 0) return StepRule::kNoSlots;
  const bool is_balanced = std::all_of(facts.domains.begin(), facts.domains.end(),
                                       [](const DomainFacts& d) { return d.max <= d.tau; });
  return is_balanced ? StepRule::kBalanced : StepRule::kNothingGained;
}

std::vector<BoundAnswer> bound_answers(const StepFacts& facts) {
  std::vector<BoundAnswer> answers;
  for (size_t d = 0; d < facts.domains.size(); ++d) {
    const DomainFacts& domain = facts.domains[d];
    BoundAnswer answer;
    answer.domain = static_cast<int32_t>(d);
    answer.num_slowest = num_at(facts, domain, domain.max);
    answer.reason = bound_reason(facts, domain, answer);
    answers.push_back(answer);
  }
  return answers;
}

ExpertAnswer expert_answer(const StepFacts& facts, int32_t expert) {
  ExpertAnswer answer;
  answer.expert = expert;
  const ExpertFacts& fact = facts.experts[expert];
  if (!fact.is_replicated()) {
    explain_absence(facts, answer);
  } else {
    const bool is_over = facts.ranks[fact.owner].owned_finish > facts.domain_of(fact.owner).tau;
    const bool relieves = is_over && fact.moved() > 0;
    answer.reason = relieves ? ExpertReason::kRelievesOwner : ExpertReason::kPlannersRule;
  }
  if (fact.rows > 0) answer.copy_rule = copy_rule_of(facts, expert);
  return answer;
}

}  // namespace megaflux::explain
