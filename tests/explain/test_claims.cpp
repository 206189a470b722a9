// Every claim of an explanation holds, for any planner, loads and configuration: each reason code
// is checked against the plan and the loads by a recount that shares no code with the explanation.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <numeric>
#include <set>

#include "explain/any_input.h"
#include "explain/counterfactual.h"
#include "explain/reasons.h"
#include "explain/recount.h"
#include "explain/step_facts.h"
#include "megaflux/base/rng.h"
#include "megaflux/plan/plan_stats.h"

namespace megaflux::explain {
namespace {

// What the claims of one explanation are checked with.
struct Case {
  explicit Case(StepInput input) : facts(gather_facts(std::move(input))) {}
  const PlanConfig& config() const { return facts.config(); }
  bool is_by_time() const {
    return config().objective == Objective::kCost && !is_baseline(config().planner);
  }
  StepFacts facts;
  Recount count{facts.config(), facts.input.loads, facts.plan};
};

void check_relieved(const Case& c, const ExpertAnswer& answer) {
  const int32_t owner = c.count.owner(answer.expert);
  int64_t moved = 0;
  for (const int32_t e : answer.relieved_by) {
    RC_ASSERT(c.count.owner(e) == owner);
    moved += c.count.blocks(e) - c.count.on(e, owner);
  }
  int64_t hosted = 0;
  for (int32_t e = 0; e < c.config().dims.num_experts; ++e) {
    if (c.count.owner(e) != owner) hosted += c.count.on(e, owner);
  }
  RC_ASSERT(!answer.relieved_by.empty());
  RC_ASSERT(c.count.owned[owner] - moved + hosted == c.count.load[owner]);
  RC_ASSERT(c.count.finish(owner, c.count.owned[owner]) > c.count.tau(owner));
  RC_ASSERT(c.count.finish(owner) <= c.count.tau(owner));
}

void check_addition(const Case& c, const Addition& addition, int64_t time) {
  const int32_t owner = c.count.owner(addition.expert);
  RC_ASSERT(c.count.helps(addition.expert, addition.rank, addition.blocks, time, c.count.lambda()));
  RC_ASSERT(addition.owner_finish ==
            c.count.finish(owner, c.count.charged[owner] + c.count.lambda() - addition.blocks));
  RC_ASSERT(addition.host_finish ==
            c.count.finish(addition.rank, c.count.charged[addition.rank] + addition.blocks));
}

// The largest finish of the addition's domain with it.
int64_t max_with(const Case& c, const Addition& addition) {
  const int32_t owner = c.count.owner(addition.expert);
  int64_t most = std::max(addition.owner_finish, addition.host_finish);
  for (const int32_t rank : c.count.domain(owner)) {
    if (rank != owner && rank != addition.rank) most = std::max(most, c.count.finish(rank));
  }
  return most;
}

// Reasons of an expert whose owner stays beyond the bound.
void check_overload(const Case& c, const ExpertAnswer& answer) {
  const int32_t owner = c.count.owner(answer.expert);
  const int64_t time = c.count.finish(owner), tau = c.count.tau(owner);
  const auto ranks = c.count.domain(owner);
  const auto num = [&](auto predicate) {
    return std::count_if(ranks.begin(), ranks.end(),
                         [&](int32_t r) { return r != owner && predicate(r); });
  };
  RC_ASSERT(time > tau);
  RC_ASSERT(answer.hosts.num_with_room ==
            num([&](int32_t r) { return c.count.has_room(r, time); }));
  switch (answer.reason) {
    case ExpertReason::kWithinSlack:
      RC_ASSERT(c.config().slack_ppm > 0);
      RC_ASSERT((time - tau) * 1'000'000 < tau * c.config().slack_ppm + 1'000'000);
      break;
    case ExpertReason::kOwnerNotSlowest:
      RC_ASSERT(c.count.finish(answer.other_rank) > time);
      RC_ASSERT(c.count.finish(answer.other_rank) == c.count.domain_max(owner));
      break;
    case ExpertReason::kNoRoom:
      RC_ASSERT(answer.hosts.num_with_room == 0);
      break;
    case ExpertReason::kNoFreeSlot:
      RC_ASSERT(answer.hosts.num_with_room > 0);
      RC_ASSERT(num([&](int32_t r) { return c.count.has_room(r, time) && c.count.has_slot(r); }) ==
                0);
      break;
    case ExpertReason::kTooFewBlocks:
      RC_ASSERT(!c.count.any_helps(answer.expert, time, 0));
      break;
    case ExpertReason::kLambdaNotPaid:
      RC_ASSERT(c.count.lambda() > 0);
      RC_ASSERT(!c.count.any_helps(answer.expert, time, c.count.lambda()));
      RC_ASSERT(c.count.any_helps(answer.expert, time, 0));
      break;
    case ExpertReason::kPredictionNotLower:
      check_addition(c, *answer.addition, time);
      RC_ASSERT(*answer.predicted_ns >= *c.facts.report.predicted_ns);
      break;
    case ExpertReason::kTiedSlowest:
      check_addition(c, *answer.addition, time);
      RC_ASSERT(answer.other_rank != owner);
      RC_ASSERT(c.count.finish(answer.other_rank) == time);
      break;
    default:
      RC_ASSERT(answer.reason == ExpertReason::kLeftByPlanner);
      check_addition(c, *answer.addition, time);
      if (c.is_by_time()) {
        RC_ASSERT(*answer.predicted_ns < *c.facts.report.predicted_ns);
      } else {
        RC_ASSERT(max_with(c, *answer.addition) < c.count.domain_max(owner));
      }
  }
}

void check_gate(const Case& c, GateDecision gate) {
  RC_ASSERT(c.facts.report.gate == gate);
  RC_ASSERT((c.facts.plan.header().flags & kPlanGateRefused) != 0);
  RC_ASSERT(c.facts.plan.num_replicas() == 0);
}

void check_expert(const Case& c, const ExpertAnswer& answer) {
  const int32_t e = answer.expert;
  const int32_t owner = c.count.owner(e);
  const bool is_replicated = c.facts.plan.instances_of(e).size() > 1;
  const bool is_over = c.count.finish(owner, c.count.owned[owner]) >
                       (c.count.is_active(owner) ? c.count.tau(owner) : 0);
  const bool moves = c.count.on(e, owner) < c.count.blocks(e);
  RC_ASSERT(is_replicated == (answer.reason <= ExpertReason::kPlannersRule));
  switch (answer.reason) {
    case ExpertReason::kRelievesOwner:
      RC_ASSERT(is_over && moves);
      break;
    case ExpertReason::kPlannersRule:
      RC_ASSERT(!is_over || !moves);
      break;
    case ExpertReason::kNoRows:
      RC_ASSERT(c.facts.input.loads.totals()[e] == 0);
      break;
    case ExpertReason::kFixedPlanner:
      RC_ASSERT(c.config().planner == PlannerKind::kFixed);
      break;
    case ExpertReason::kFewRows:
      check_gate(c, GateDecision::kFewRows);
      RC_ASSERT(c.facts.input.loads.total_rows() < c.config().min_forward_rows);
      break;
    case ExpertReason::kPreGate:
      check_gate(c, GateDecision::kPreGate);
      break;
    case ExpertReason::kGateFixed:
      check_gate(c, GateDecision::kFixed);
      break;
    case ExpertReason::kNoSlots:
      RC_ASSERT(c.facts.plan.dims().replica_slots == 0);
      break;
    case ExpertReason::kOwnerMoved:
      RC_ASSERT(owner != c.config().owner_of[e]);
      break;
    case ExpertReason::kPlacedByRule:
      RC_ASSERT(c.config().planner == PlannerKind::kEplb ||
                c.config().planner == PlannerKind::kLplb);
      break;
    case ExpertReason::kAloneInDomain:
      RC_ASSERT(c.count.domain(owner) == std::vector<int32_t>{owner});
      break;
    case ExpertReason::kTooSmall:
      RC_ASSERT(c.count.blocks(e) < c.count.least(e));
      break;
    case ExpertReason::kOwnerWithinBound:
      RC_ASSERT(!is_over);
      break;
    case ExpertReason::kOwnerRelieved:
      check_relieved(c, answer);
      break;
    default:
      check_overload(c, answer);
  }
}

void check_bound(const Case& c, const BoundAnswer& answer) {
  const DomainFacts& domain = c.facts.domains[answer.domain];
  const int32_t slowest = domain.slowest;
  const int64_t most = c.count.domain_max(slowest), tau = c.count.tau(slowest);
  RC_ASSERT(domain.max == most && domain.tau == tau);
  RC_ASSERT(c.count.finish(slowest) == most);
  RC_ASSERT((answer.reason == BoundReason::kAtBound) == (most <= tau));
  const auto ranks = c.count.domain(slowest);
  const auto with_room = std::count_if(ranks.begin(), ranks.end(), [&](int32_t r) {
    return r != slowest && c.count.has_room(r, most);
  });
  const auto with_slot = std::count_if(ranks.begin(), ranks.end(), [&](int32_t r) {
    return r != slowest && c.count.has_room(r, most) && c.count.has_slot(r);
  });
  bool any_helps = false;
  for (int32_t e = 0; e < c.config().dims.num_experts; ++e) {
    any_helps |= c.count.owner(e) == slowest && c.count.any_helps(e, most, c.count.lambda());
  }
  switch (answer.reason) {
    case BoundReason::kAtBound:
      break;
    case BoundReason::kWithinSlack:
      RC_ASSERT((most - tau) * 1'000'000 < tau * c.config().slack_ppm + 1'000'000);
      break;
    case BoundReason::kNotSearched:
      RC_ASSERT(c.facts.plan.num_replicas() == 0);
      break;
    case BoundReason::kPredictedTime:
      RC_ASSERT(c.is_by_time());
      break;
    case BoundReason::kAloneInDomain:
      RC_ASSERT(ranks.size() == 1u);
      break;
    case BoundReason::kNoRoom:
      RC_ASSERT(with_room == 0);
      break;
    case BoundReason::kOneMoveLeft:
      RC_ASSERT(answer.shift.has_value() != answer.addition.has_value());
      if (answer.addition) check_addition(c, *answer.addition, most);
      if (answer.shift) {
        RC_ASSERT(c.count.shifts(answer.shift->expert, slowest, answer.shift->to,
                                 answer.shift->blocks, most));
      }
      break;
    case BoundReason::kNoFreeSlot:
      RC_ASSERT(with_room > 0 && with_slot == 0 && !c.count.any_shifts(slowest, most));
      break;
    case BoundReason::kLeastSizes:
      RC_ASSERT(with_slot > 0 && !any_helps && !c.count.any_shifts(slowest, most));
      break;
  }
}

void check_walk(const Case& c) {
  std::vector<int64_t> loads = c.count.fixed;
  for (const Move& move : c.facts.walk) {
    loads[move.from] -= move.blocks;
    loads[move.to] += move.blocks;
    RC_ASSERT(move.from_load == loads[move.from] && move.to_load == loads[move.to]);
  }
  RC_ASSERT(loads == c.count.load);
}

void check_changes(const Case& c, int32_t expert) {
  auto list = expert_counterfactuals(c.facts, expert);
  for (const Counterfactual& slots : slot_counterfactuals(c.facts)) list.push_back(slots);
  for (const Counterfactual& what : list) {
    StepInput input = c.facts.input;
    switch (what.change) {
      case Change::kOneSlotMore:
        input.config.dims.replica_slots += 1;
        break;
      case Change::kOneSlotLess:
        input.config.dims.replica_slots -= 1;
        break;
      case Change::kOtherOwner:
        input.config.owner_of[what.expert] = what.rank;
        break;
      case Change::kBarred: {
        // Whatever is planned, its owner computes all of it.
        const int32_t owner = c.count.owner(expert);
        RC_ASSERT(what.max >= c.count.finish(owner, c.count.blocks(expert)));
        continue;
      }
      case Change::kUndone: {
        // Pushing blocks back never makes its owner finish earlier than it does, but for lambda.
        const int32_t owner = c.count.owner(expert);
        const int64_t back = c.count.blocks(expert) - c.count.on(expert, owner);
        const auto num = static_cast<int64_t>(c.facts.plan.instances_of(expert).size()) - 1;
        RC_ASSERT(what.replicas == c.facts.plan.num_replicas() - num);
        RC_ASSERT(what.max >=
                  c.count.finish(owner, c.count.charged[owner] + back - num * c.count.lambda()));
        continue;
      }
      case Change::kOneReplicaMore:
        RC_ASSERT(c.count.helps(expert, what.rank, what.blocks,
                                c.count.finish(c.count.owner(expert)), c.count.lambda()));
        continue;
    }
    Plan plan;
    PlanReport report;
    make_planner(input.config)->plan(input.loads, {}, plan, report);
    RC_ASSERT(what.has_plan == report.has_plan());
    RC_ASSERT(what.replicas == plan.num_replicas());
    if (c.config().objective != Objective::kCost) {
      RC_ASSERT(static_cast<uint64_t>(what.max) == plan.header().objective);
    }
  }
}

RC_GTEST_PROP(ExplainClaims, hold_for_every_planner, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  Rng rng(seed);
  for (size_t kind = 0; kind < planner_names().size(); ++kind) {
    const Case c(any_input(rng, static_cast<PlannerKind>(kind)));
    RC_LOG() << "planner " << planner_names()[kind] << ", seed " << seed << "\n";
    if (c.config().objective != Objective::kCost) {
      RC_ASSERT(static_cast<uint64_t>(c.facts.max_finish()) == c.facts.plan.header().objective);
    }
    const bool is_plain =
        !is_baseline(c.config().planner) && step_rule(c.facts) == StepRule::kReplicated;
    if (c.config().cost && is_plain) {
      RC_ASSERT(predicted_ns(c.facts) == *c.facts.report.predicted_ns);
    }
    check_walk(c);
    for (const BoundAnswer& answer : bound_answers(c.facts)) check_bound(c, answer);
    for (int32_t e = 0; e < c.config().dims.num_experts; ++e) {
      const ExpertAnswer answer = expert_answer(c.facts, e);
      RC_LOG() << "expert " << e << ": " << code_of(answer.reason) << "\n";
      check_expert(c, answer);
    }
    check_changes(c, static_cast<int32_t>(rng.below(c.config().dims.num_experts)));
  }
}

// The generator comes upon every reason, so that none is claimed unchecked.
TEST(ExplainCoverage, every_reason_is_met) {
  std::set<std::string_view> experts, bounds, rules;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Rng rng(seed);
    for (size_t kind = 0; kind < planner_names().size(); ++kind) {
      const StepFacts facts = gather_facts(any_input(rng, static_cast<PlannerKind>(kind)));
      rules.insert(code_of(step_rule(facts)));
      for (const BoundAnswer& answer : bound_answers(facts)) bounds.insert(code_of(answer.reason));
      for (int32_t e = 0; e < facts.config().dims.num_experts; ++e) {
        experts.insert(code_of(expert_answer(facts, e).reason));
      }
    }
  }
  std::set<std::string_view> all;
  for (int i = 0; i <= static_cast<int>(ExpertReason::kLeftByPlanner); ++i) {
    all.insert(code_of(static_cast<ExpertReason>(i)));
  }
  for (const auto& code : all) EXPECT_TRUE(experts.contains(code)) << code;
  for (int i = 0; i <= static_cast<int>(BoundReason::kLeastSizes); ++i) {
    EXPECT_TRUE(bounds.contains(code_of(static_cast<BoundReason>(i))))
        << code_of(static_cast<BoundReason>(i));
  }
  for (int i = 0; i <= static_cast<int>(StepRule::kNothingGained); ++i) {
    EXPECT_TRUE(rules.contains(code_of(static_cast<StepRule>(i))))
        << code_of(static_cast<StepRule>(i));
  }
}

}  // namespace
}  // namespace megaflux::explain
