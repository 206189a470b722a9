// Additions: one more replica, beside a plan that stays otherwise as it is.
#pragma once

#include <cstdint>
#include <optional>

#include "explain/step_facts.h"

namespace megaflux::explain {

struct Addition {
  int32_t expert = 0;
  int32_t rank = 0;          // host
  int64_t blocks = 0;        // taken from the owner
  int64_t owner_finish = 0;  // then
  int64_t host_finish = 0;
  int64_t worse() const { return owner_finish > host_finish ? owner_finish : host_finish; }
};

// How far an addition is looked for.
enum class Charge : uint8_t {
  kAll,       // the owner pays lambda for it
  kNoLambda,  // as if it were free: shows whether lambda decides
};

// True for planners that keep to s replicas a rank; llep, moonep and broadcast take what they need.
bool has_slot_budget(PlannerKind planner);
// Least blocks that the planner leaves with an owner: 1 row for quota and, by default, ultraep.
int64_t least_kept(const PlanConfig& config);

// Active ranks of the owner's domain, the owner apart, that could take one block and still finish
// before `time`, and those of them with a free slot (all of them without a slot budget).
struct Hosts {
  int32_t num_others = 0;
  int32_t num_with_room = 0;
  int32_t num_with_room_and_slot = 0;
};
Hosts hosts_before(const StepFacts& facts, int32_t owner, int64_t time);

// The new replica of `expert` with which the later of its owner and its host finishes earliest, and
// before `time`: on a rank with a free slot that does not hold it, of the least size that the
// planner honours. Nullopt if there is none. Ties go to the lowest rank and the fewest blocks.
std::optional<Addition> best_addition(const StepFacts& facts, int32_t expert, int64_t time,
                                      Charge charge = Charge::kAll);

// When the domain of the addition finishes with it.
int64_t finish_with_addition(const StepFacts& facts, const Addition& addition);

// Blocks of one expert that could move from `rank` to a rank that holds the expert already so that
// both finish before `time`.
struct Shift {
  int32_t expert = 0;
  int32_t to = 0;
  int64_t blocks = 0;
};
std::optional<Shift> find_shift(const StepFacts& facts, int32_t rank, int64_t time);

// Predicted nanoseconds of the plan, with one more replica if given. For planners of our own with a
// cost model; without an addition it is the planner's own prediction.
uint64_t predicted_ns(const StepFacts& facts, const Addition* addition = nullptr);

}  // namespace megaflux::explain
