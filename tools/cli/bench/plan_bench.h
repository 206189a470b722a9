// Measures a planner on the host: time of a call and quality of the plans, over many recorded
// steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megaflux/plan/planner.h"

namespace megaflux::cli {

// One recorded step of one layer.
struct BenchCase {
  std::vector<int32_t> totals;  // [E]
  int32_t topk = 0;             // 0 = unknown
  std::string name;             // file, layer, step
};

struct CaseSelection {
  int32_t cases_per_file = 120;  // drawn from `seed` where a file has more
  uint64_t seed = 1;
  int32_t num_ranks = 8;
  int64_t rows_per_rank = 65536;  // counts are scaled to this; 0 = as recorded
};

std::vector<BenchCase> select_cases(const std::string& file, const CaseSelection& selection);

// Samples over the cases of one E.
struct BenchFigures {
  int32_t num_experts = 0;
  std::vector<double> plan_us;    // median over the repeats of a case
  std::vector<double> ratio;      // largest load / tau
  std::vector<double> copies;     // replicas that must move
  std::vector<double> imbalance;  // rows, max / mean
  std::vector<double> slots;      // most replicas on a rank
  std::string worst_case;         // name of the case with the largest ratio
};

// Plans one case: `repeats` timed calls after an untimed one.
void measure_case(Planner& planner, const BenchCase& bench_case, int32_t repeats,
                  BenchFigures& figures);

}  // namespace megaflux::cli
