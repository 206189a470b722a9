// PlanMaps: a plan in the conventions of other frameworks. All entries are int32, -1 = none.
//
// Physical ids number the places that can hold an expert, rank after rank: the owned experts of a
// rank in ascending id, then its s slots, empty ones included. With E / P owned experts a rank that
// is [P * (E / P + s)].
//
// Example: the plan of moe/plan.h (owners {0, 0, 1}, s 1, a replica of expert 0 in rank 1's slot):
//   rank_begin            = {0, 3, 5}         rank 0: two experts, a slot; rank 1: one, a slot
//   physical_to_logical   = {0, 1, -1, 2, 0}  rank 0's slot is empty, rank 1's holds expert 0
//   logical_to_physical   = {0, 4,  1, -1,  3, -1}
//                                             [E, max_copies = 2]: the owner, then ascending rank
//   logical_replica_count = {2, 1, 1}         instances, the owner counted
//   slot_experts          = {-1, 0}           DeepEP's [ranks, slots] expert map
//   source_slots          = {-1, 0}           Megatron's [EP, S]: physical id whose weights fill it
//   experts_to_copy       = {-1, 0}           MoonEP's [P, s]: slot_experts but for residents
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/moe/plan.h"

namespace megaflux {

struct PlanMaps {
  int32_t num_ranks = 0;      // P
  int32_t replica_slots = 0;  // s
  int32_t num_physical = 0;   // E + P s
  int32_t max_copies = 0;     // most instances of one expert

  std::vector<int32_t> rank_begin;             // [P + 1] first physical id of each rank
  std::vector<int32_t> physical_to_logical;    // [num_physical]
  std::vector<int32_t> logical_to_physical;    // [E, max_copies]
  std::vector<int32_t> logical_replica_count;  // [E]
  std::vector<int32_t> slot_experts;           // [P, s]
  std::vector<int32_t> source_slots;           // [P, s]
  std::vector<int32_t> experts_to_copy;        // [P, s]
};

// Throws kBadInput if the plan is empty.
PlanMaps plan_maps(const Plan& plan);

}  // namespace megaflux
