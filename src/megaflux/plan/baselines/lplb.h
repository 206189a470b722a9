// LPLB's linear program: variables that give the rows of one owner to one host or keep them, and
// the least possible load of the slowest rank. Two solvers: exact, and the five-step interior-point
// iteration that LPLB ships.
//
// Example, two ranks: fixed loads {10, 30}, one variable {owner 0, host 1, 80 rows}. Exact: the
// owner keeps 50 of 80 rows, both ranks end at 60.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megaflux {

struct LplbVariable {
  int32_t owner = 0;
  int32_t host = 0;
  int64_t rows = 0;
};

struct LplbProblem {
  std::vector<int64_t> fixed;  // [g] rows that stay
  std::vector<LplbVariable> variables;
};

// Rows that each variable's owner keeps, in whole rows, with the least largest load.
std::vector<int64_t> solve_lplb_exact(const LplbProblem& problem);

struct LplbShares {
  bool accepted = false;    // false: the iteration did not converge, and every share is one half
  std::vector<float> kept;  // of each variable, in [0, 1]
};

// Loads are divided by `scale`, LPLB's largest expert load, at least 1.
LplbShares solve_lplb_interior_point(const LplbProblem& problem, int64_t scale);

// LPLB's cube of 8 ranks and 2 columns, else column d of rank x is rank x - 1 - d; [g, D].
std::vector<int32_t> lplb_topology(int32_t num_ranks, int32_t num_columns);

}  // namespace megaflux
