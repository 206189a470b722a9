// Is a plan legal for these loads? Every planner's result and every plan from outside passes here.
//
// Legal means safe and complete to execute; it says nothing about quality:
//  - the plan has the config's E, P and s and its owner table; block_rows is the plan's own (a plan
//    of another granularity is legal), and so is a replica with no blocks or fewer than
//    min_copy_blocks;
//  - the instances of an expert stand in strictly ascending rank order (so at most one a rank) and
//    hold contiguous block ranges that start at 0 and end at b_e; the owner is among them, in no
//    slot;
//  - a replica sits on an active rank of its owner's domain, not on its owner, in a slot that names
//    its expert; every other slot is empty, so a rank hosts at most s replicas; experts without
//    rows have none;
//  - a slot is marked resident only if `resident` says that it holds this expert;
//  - num_instances, max_blocks, num_copies and hash of the header agree with the content, and a
//    plan that a gate refused (kPlanGateRefused) has no replicas;
//  - no orphans: an expert with rows has an active owner, since its weights are nowhere else.
//
// Example: the plan of moe/plan.h (E 3, P 2, s 1, owners {0, 0, 1}) for rows {600, 100, 90} is
// legal. For rows {700, 100, 90} it is not: "expert 0: 5 blocks given out, 6 hold its 700 rows".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux {

// What makes the plan illegal, in plain words with numbers; empty = legal. `resident` is [P s], the
// expert each slot holds already (-1 = none); empty = nothing is resident. Throws kBadInput if a
// table of `config` or `resident` has the wrong size; the rest of the config must have passed
// check_config.
std::vector<std::string> check_plan(const Plan& plan, const LoadTable& loads,
                                    const PlanConfig& config,
                                    std::span<const int32_t> resident = {});

// The same answer as check_plan(...).empty(), but for the hash, which is left unread: no
// allocation, stops at the first violation, one pass over the plan. For every planning call.
bool is_legal(const Plan& plan, const LoadTable& loads, const PlanConfig& config,
              std::span<const int32_t> resident = {});

// Takes a plan from outside: bytes that Plan::from_bytes reads and check_plan finds legal. The
// result is marked kPlanFromOutside and executed like any other. Otherwise throws kBadInput with
// the first violations.
Plan adopt_plan(std::span<const std::byte> bytes, const LoadTable& loads, const PlanConfig& config,
                std::span<const int32_t> resident = {});

}  // namespace megaflux
