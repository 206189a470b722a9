// The exact optimum of a planning problem: a mixed integer program, written as LP text and solved
// by the program `cbc`. It is built from configuration and loads alone and shares no code with the
// planners.
//
// The question asked is "is there a plan that finishes by T?", for T between a bound and the finish
// of a plan that is known: far quicker to answer than to minimise T in one program. y[e,r] = 1 if
// rank r hosts expert e, x[e,r] blocks of e that r computes:
//   sum_r x[e,r] = b_e,  sum_e x[e,r] <= capacity_r(T),  x[e,r] <= min(b_e, capacity_r) y[e,r],
//   sum_e y[e,r] <= s, r not the owner, r active and in the owner's domain.
// With y given it is a transport problem, whose corners are whole numbers, so x may be continuous.
//
// Example: 2 ranks that own blocks {5, 1} and {2, 1}, one slot. At T = 5 rank 0 must give one block
// away, and rank 1 may host any of its experts: feasible. At T = 4 the capacities hold 8 of 9
// blocks: infeasible.
#pragma once

#include <cstdint>
#include <string>

#include "megaflux/moe/load_table.h"
#include "megaflux/plan/planner.h"

namespace megaflux::optimum {

// Bounds of the least possible max_r finish; equal = it is proven.
struct OptimumBounds {
  int64_t lower = 0;  // no plan finishes earlier
  int64_t upper = 0;  // a plan finishes then
  bool is_proven() const { return lower == upper; }
};

enum class Answer : uint8_t { kFeasible, kInfeasible, kUnknown };

// The least finish that capacities and work of other kinds allow, slots left aside.
int64_t trivial_bound(const PlanConfig& config, const LoadTable& loads);

// The program as LP text. `finish` is at least trivial_bound.
std::string feasibility_program(const PlanConfig& config, const LoadTable& loads, int64_t finish);

// True if `cbc` can be run.
bool has_cbc();

// Asks cbc; kUnknown if `seconds` are not enough. A "feasible" is checked: the blocks it names add
// up, keep to the slots and to every capacity. Throws kInternal if they do not, or if cbc says
// something else.
Answer ask_cbc(const PlanConfig& config, const LoadTable& loads, int64_t finish, int32_t seconds);

// Bisects between the trivial bound and `known`, the finish of some legal plan; `seconds` for each
// question.
OptimumBounds find_optimum(const PlanConfig& config, const LoadTable& loads, int64_t known,
                           int32_t seconds);

}  // namespace megaflux::optimum
