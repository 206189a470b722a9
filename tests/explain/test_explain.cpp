// Explanations small enough to follow by hand.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "explain/counterfactual.h"
#include "explain/reasons.h"
#include "explain/step_facts.h"

namespace megaflux::explain {
namespace {

StepInput input_of(PlannerKind planner, int32_t num_ranks, int32_t slots,
                   const std::vector<int64_t>& totals) {
  StepInput input;
  input.config.planner = planner;
  input.config.dims = {static_cast<int32_t>(totals.size()), num_ranks, slots, 1};
  input.loads = LoadTable::from_totals(num_ranks, totals);
  return input;
}

std::string_view reason_of(const StepFacts& facts, int32_t expert) {
  return code_of(expert_answer(facts, expert).reason);
}

std::string_view bound_of(const StepFacts& facts) {
  return code_of(bound_answers(facts)[0].reason);
}

const Counterfactual* find(const std::vector<Counterfactual>& list, Change change) {
  for (const Counterfactual& what : list) {
    if (what.change == change) return &what;
  }
  return nullptr;
}

// One layer of the weights in EPLB's README: twelve experts on four ranks, sixteen places.
const std::vector<int64_t> kReadmeWeights = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};

// The question is why an expert got a copy. Expert 10 has 183 rows, the most; the fourth and last
// copy goes to expert 4 with 104 rows, so none with fewer rows gets one.
TEST(Explain, IC_69_readme_weights_of_eplb) {
  const StepFacts facts = gather_facts(input_of(PlannerKind::kEplb, 4, 1, kReadmeWeights));
  for (int32_t e = 0; e < 12; ++e) {
    const ExpertAnswer answer = expert_answer(facts, e);
    ASSERT_TRUE(answer.copy_rule.has_value());
    const bool is_hot = kReadmeWeights[e] >= 104;
    EXPECT_EQ(answer.copy_rule->copies, is_hot ? 2 : 1) << e;
    EXPECT_DOUBLE_EQ(answer.copy_rule->share,
                     static_cast<double>(kReadmeWeights[e]) / answer.copy_rule->copies);
    EXPECT_DOUBLE_EQ(answer.copy_rule->least_last, 104);
    if (!facts.experts[e].is_replicated()) continue;
    EXPECT_TRUE(is_hot) << e;
  }
}

// The same weights planned for the step: expert 5 and its 165 rows are on a rank with 308, and the
// bound is 259; expert 4 with 104 rows shares that rank and need not move.
TEST(Explain, IC_69_readme_weights_of_eplb_planned_for_the_step) {
  const StepFacts facts = gather_facts(input_of(PlannerKind::kMegaflux, 4, 1, kReadmeWeights));
  EXPECT_EQ(facts.max_tau(), 259);  // ceil(1033 / 4)
  EXPECT_EQ(facts.max_finish(), 259);
  EXPECT_EQ(bound_of(facts), "at_bound");
  for (int32_t e = 0; e < 12; ++e) {
    const int32_t owner = facts.experts[e].owner;
    const bool is_over = facts.ranks[owner].owned_load > 259;
    if (facts.experts[e].is_replicated()) {
      EXPECT_EQ(reason_of(facts, e), "relieves_owner") << e;
      EXPECT_TRUE(is_over);
    } else {
      EXPECT_EQ(reason_of(facts, e), is_over ? "owner_relieved" : "owner_within_bound") << e;
    }
  }
}

TEST(Explain, walk_leads_from_fixed_placement_to_the_plan) {
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 1, {5, 1, 1});
  input.config.owner_of = {0, 0, 1};
  const StepFacts facts = gather_facts(input);
  ASSERT_EQ(facts.walk.size(), 1u);
  const Move& move = facts.walk[0];
  EXPECT_EQ(move.expert, 0);
  EXPECT_EQ(move.blocks, 2);
  EXPECT_EQ(move.from_load, 4);
  EXPECT_EQ(move.to_load, 3);
  EXPECT_EQ(facts.imbalance_fixed, 6 / 3.5);
}

TEST(Explain, without_slots_nothing_can_move) {
  const StepFacts facts = gather_facts(input_of(PlannerKind::kMegaflux, 2, 0, {9, 1}));
  EXPECT_EQ(code_of(step_rule(facts)), "no_slots");
  EXPECT_EQ(reason_of(facts, 0), "no_slots");
  EXPECT_EQ(bound_of(facts), "no_free_slot");
  const auto slots = slot_counterfactuals(facts);
  ASSERT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots[0].max, 5);
}

// Rank 0 has four experts of 25, the others nothing; one slot each takes one expert. Its last one
// stays, and no slot is left.
TEST(Explain, exhausted_slots_are_named) {
  StepInput input = input_of(PlannerKind::kMegaflux, 4, 1, {10, 10, 10, 10, 10, 10, 10, 10});
  input.config.owner_of = {0, 0, 0, 0, 0, 0, 0, 0};
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(facts.max_tau(), 20);
  EXPECT_EQ(facts.max_finish(), 50);
  EXPECT_EQ(bound_of(facts), "no_free_slot");
  for (int32_t e = 0; e < 8; ++e) {
    EXPECT_EQ(reason_of(facts, e),
              facts.experts[e].is_replicated() ? "relieves_owner" : "no_free_slot");
  }
  EXPECT_EQ(slot_counterfactuals(facts)[0].max, 20);
}

TEST(Explain, small_experts_stay_where_a_replica_must_be_large) {
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 4, {4, 4, 4, 1});
  input.config.owner_of = {0, 0, 0, 1};
  input.config.min_copy_blocks = 5;
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(code_of(step_rule(facts)), "nothing_gained");
  EXPECT_EQ(reason_of(facts, 0), "too_small");
  EXPECT_EQ(reason_of(facts, 3), "owner_within_bound");
  EXPECT_EQ(bound_of(facts), "least_sizes");
}

TEST(Explain, lambda_is_named_where_it_decides) {
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 1, {20, 10});
  input.config.objective = Objective::kBackward;
  input.config.lambda_blocks = 12;
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(reason_of(facts, 0), "lambda_not_paid");
  EXPECT_EQ(facts.max_finish(), 20);
}

TEST(Explain, gates_are_named) {
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 1, {20, 10});
  input.config.min_forward_rows = 31;
  EXPECT_EQ(reason_of(gather_facts(input), 0), "few_rows");
  input.config.min_forward_rows = 30;
  EXPECT_EQ(reason_of(gather_facts(input), 0), "relieves_owner");
  input.config.objective = Objective::kCost;
  input.config.cost = CostModel{.block_ps = 1'000, .link_bytes_per_us = 1, .plan_ns = 1'000};
  EXPECT_EQ(reason_of(gather_facts(input), 0), "pre_gate");
  // 5 us could be saved, and behind the 20 us of rank 0 all but 4 us of a copy would hide; but rank
  // 1, which has to host it, has 10 us of cover.
  input.config.cost = CostModel{.block_ps = 1'000'000, .weight_bytes = 24, .link_bytes_per_us = 1};
  EXPECT_EQ(reason_of(gather_facts(input), 0), "gate_fixed");
}

TEST(Explain, a_domain_of_one_rank_has_no_host) {
  StepInput input = input_of(PlannerKind::kMegaflux, 3, 1, {20, 10, 1});
  input.config.domain_of = {0, 1, 1};
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(reason_of(facts, 0), "alone_in_domain");
  EXPECT_EQ(facts.max_tau(), 20);
  EXPECT_EQ(tau_without_domains(facts), 11);
}

TEST(Explain, an_inactive_rank_raises_the_bound) {
  StepInput input = input_of(PlannerKind::kMegaflux, 3, 1, {20, 10, 0});
  input.config.active = {1, 1, 0};
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(facts.max_tau(), 15);
  EXPECT_EQ(tau_with_all_ranks(facts), 10);
}

TEST(Explain, slack_is_named_where_it_decides) {
  StepInput input =
      input_of(PlannerKind::kMegaflux, 8, 1, {1000, 1010, 1004, 990, 996, 1003, 997, 1000});
  input.config.slack_ppm = 5000;
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(facts.max_finish(), 1004);
  EXPECT_EQ(bound_of(facts), "within_slack");
  EXPECT_EQ(reason_of(facts, 1), "relieves_owner");
  EXPECT_EQ(reason_of(facts, 2), "within_slack");
}

// echo with one slot leaves rank 0 above the bound, and one more replica would have helped.
TEST(Explain, what_a_rival_leaves_is_shown) {
  StepInput input =
      input_of(PlannerKind::kEcho, 4, 2, {40, 10, 10, 4, 8, 8, 8, 8, 2, 2, 2, 2, 1, 1, 1, 21});
  input.config.baselines.echo.reclaim_ppm = 300'000;
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(facts.max_finish(), 40);
  EXPECT_EQ(bound_of(facts), "one_move_left");
}

TEST(Explain, counterfactuals_of_an_expert) {
  // Rank 0 keeps 4 of 9 rows of expert 0; without its replica it has them all.
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 1, {9, 0, 1, 0});
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(facts.max_finish(), 5);
  const auto list = expert_counterfactuals(facts, 0);
  EXPECT_EQ(find(list, Change::kUndone)->max, 9);
  EXPECT_EQ(find(list, Change::kBarred)->max, 9);
  EXPECT_EQ(find(list, Change::kBarred)->tau, 9);
  EXPECT_EQ(find(list, Change::kBarred)->replicas, 0);
  EXPECT_EQ(find(list, Change::kOtherOwner)->rank, 1);
  EXPECT_EQ(find(list, Change::kOtherOwner)->max, 5);
  EXPECT_EQ(find(list, Change::kOneReplicaMore), nullptr);
}

// Without its replica the owner has 9 rows, and no longer pays 2 blocks for it.
TEST(Explain, undoing_a_replica_saves_its_lambda) {
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 1, {9, 0, 1, 0});
  input.config.objective = Objective::kBackward;
  input.config.lambda_blocks = 2;
  const StepFacts facts = gather_facts(input);
  EXPECT_EQ(facts.max_finish(), 6);
  EXPECT_EQ(find(expert_counterfactuals(facts, 0), Change::kUndone)->max, 9);
}

TEST(Explain, orphans_are_no_plan) {
  StepInput input = input_of(PlannerKind::kMegaflux, 2, 1, {5, 5});
  input.config.active = {1, 0};
  const StepFacts facts = gather_facts(input);
  EXPECT_FALSE(facts.has_plan());
  EXPECT_EQ(facts.report.orphans, std::vector<int32_t>{1});
}

}  // namespace
}  // namespace megaflux::explain
