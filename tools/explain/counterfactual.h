// Counterfactuals: what else would have come out. All but kUndone and kOneReplicaMore are planned
// anew by the same planner under changed input.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "explain/step_facts.h"

namespace megaflux::explain {

enum class Change : uint8_t {
  kOneSlotMore,     // s + 1 slots a rank
  kOneSlotLess,     // s - 1; what the last slot held is no longer resident
  kUndone,          // this plan, the expert's replicas back at its owner
  kBarred,          // planned anew, the expert pinned to its owner
  kOneReplicaMore,  // this plan, one more replica of the expert
  kOtherOwner,      // planned anew, the expert owned by the lightest rank of its domain
};

std::string_view code_of(Change change);  // "one_slot_more"

struct Counterfactual {
  Change change = Change::kOneSlotMore;
  int32_t expert = -1;  // of all but the slots
  int32_t rank = -1;    // kOneReplicaMore: host; kOtherOwner: owner
  int64_t blocks = 0;   // kOneReplicaMore
  bool has_plan = true;
  int64_t tau = 0;
  int64_t max = 0;  // latest finish in blocks, as StepFacts counts it
  int32_t replicas = 0;
  int32_t copies = 0;
};

// One slot more and one less, where the limits allow it.
std::vector<Counterfactual> slot_counterfactuals(const StepFacts& facts);

// Of one expert with rows: undone and barred if it is replicated, one replica more where one helps
// its owner, and another owner. Barred is planned by megaflux, paper and quota under the forward
// and backward objectives: the others do not look at other work, which is how an expert is pinned.
std::vector<Counterfactual> expert_counterfactuals(const StepFacts& facts, int32_t expert);

}  // namespace megaflux::explain
