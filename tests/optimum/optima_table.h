// optima.csv: what is known of the optimum of every case, one line each, in the order of
// make_cases; planner_optimum (bench/) writes it. Columns: hash of the problem, bound from
// capacities alone, proven lower bound, finish of the best plan known, name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "optimum/exact_optimum.h"
#include "optimum/optimum_cases.h"

namespace megaflux::optimum {

inline constexpr std::string_view kOptimaHeader = "hash,bound,lower,upper,case";

struct KnownOptimum {
  std::string hash;  // of dimensions, tables and loads; 16 digits
  int64_t bound = 0;
  OptimumBounds bounds;
  std::string name;
};

std::string problem_hash(const OptimumCase& c);
std::string to_line(const KnownOptimum& known);
// Throws kBadInput naming file and line.
std::vector<KnownOptimum> read_optima(const std::string& path);

// What a plan may take at most to count as good: the optimum plus one block or 0.5 %, whichever is
// more.
int64_t good_finish(int64_t optimum);

}  // namespace megaflux::optimum
