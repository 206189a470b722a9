// Reasons: why a step's plan is what it is, as codes and numbers. Each code states facts that can
// be checked against the plan and the loads alone; none guesses what a search was up to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "explain/addition.h"
#include "explain/step_facts.h"

namespace megaflux::explain {

// What decided the step as a whole.
enum class StepRule : uint8_t {
  kNoRows,         // there are none
  kFixedPlanner,   // `fixed` never replicates
  kFewRows,        // fewer rows than min_forward_rows
  kPreGate,        // perfect balance would not have paid for planning and one copy
  kGateFixed,      // searched, and no plan was predicted to be faster than fixed placement
  kReplicated,     // replicas, or owners moved
  kNoSlots,        // there is no slot to put a replica in
  kBalanced,       // fixed placement finishes at the bound
  kNothingGained,  // none of the above, and no replica: the planner found nothing better
};

// How a domain's slowest rank relates to the bound tau.
enum class BoundReason : uint8_t {
  kAtBound,        // finishes at tau: no plan does better
  kWithinSlack,    // later, within the accepted slack
  kNotSearched,    // kFixedPlanner, kFewRows, kPreGate or kGateFixed left it as it was
  kPredictedTime,  // the objective is predicted time, not this
  kAloneInDomain,  // no other active rank in the domain
  kNoRoom,         // no other rank could take one block and still finish earlier
  kOneMoveLeft,    // one more move would let the slowest rank finish earlier
  kNoFreeSlot,     // ranks have room, none of them has a free slot
  kLeastSizes,     // room and slots, but no share that may move is small or large enough
};

enum class ExpertReason : uint8_t {
  // Replicated.
  kRelievesOwner,  // without replicas its owner would finish after the bound
  kPlannersRule,   // its owner would not; the planner replicates by a rule of its own
  // Not replicated.
  kNoRows,
  kFixedPlanner,
  kFewRows,
  kPreGate,
  kGateFixed,
  kNoSlots,
  kOwnerMoved,          // the whole expert went to another rank
  kPlacedByRule,        // eplb, lplb: experts are placed by their rows, not by the load of ranks
  kAloneInDomain,       // its owner has no other active rank in its domain
  kTooSmall,            // has fewer blocks than a replica must carry
  kOwnerWithinBound,    // its owner finishes by the bound without any replica
  kOwnerRelieved,       // replicas of its owner's other experts brought the owner to the bound
  kWithinSlack,         // its owner finishes after the bound, within the slack
  kOwnerNotSlowest,     // its owner finishes after the bound, and another rank later still
  kNoRoom,              // no rank could take a block of it and finish before its owner does
  kNoFreeSlot,          // such ranks exist, none of them has a free slot
  kTooFewBlocks,        // no share of it that may move helps
  kLambdaNotPaid,       // a share would help if a replica did not cost lambda blocks
  kPredictionNotLower,  // the best replica was predicted to take as long or longer
  kTiedSlowest,         // a replica would help its owner, but another rank is as slow
  kLeftByPlanner,       // one more replica would have helped: the planner left it
};

std::string_view code_of(StepRule rule);       // "pre_gate"
std::string_view code_of(BoundReason reason);  // "no_free_slot"
std::string_view code_of(ExpertReason reason);

struct BoundAnswer {
  int32_t domain = 0;  // index into StepFacts::domains
  BoundReason reason = BoundReason::kAtBound;
  int32_t num_slowest = 1;  // ranks that finish with the slowest
  Hosts hosts = {};         // those that could finish before it
  std::optional<Shift> shift = {};
  std::optional<Addition> addition = {};
};

// Rows a copy as eplb counts them: the expert with most is given one more copy, until the places
// are taken.
struct CopyRule {
  int32_t copies = 1;
  double share = 0;       // weight / copies
  double least_last = 0;  // the least share that got an expert its last copy
};

struct ExpertAnswer {
  int32_t expert = 0;
  ExpertReason reason = ExpertReason::kNoRows;
  std::vector<int32_t> relieved_by;  // kOwnerRelieved: experts with replicas, most blocks first
  int32_t other_rank = -1;           // kOwnerNotSlowest, kTiedSlowest: the slowest other rank
  Hosts hosts;                       // that could finish before the owner
  std::optional<Addition> addition;  // the best one more replica, where one helps its owner
  std::optional<uint64_t> predicted_ns = {};  // of that
  std::optional<CopyRule> copy_rule = {};     // eplb without nodes
};

// The facts must hold a plan.
StepRule step_rule(const StepFacts& facts);
std::vector<BoundAnswer> bound_answers(const StepFacts& facts);
ExpertAnswer expert_answer(const StepFacts& facts, int32_t expert);

}  // namespace megaflux::explain
