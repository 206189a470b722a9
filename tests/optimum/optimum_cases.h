// The 300 planning cases whose optimum is known: slices of the recorded traces in data/, route
// families, and random tables; owners, domains, inactive ranks, other work and speeds vary. The
// same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/plan/planner.h"

namespace megaflux::optimum {

struct OptimumCase {
  std::string name;  // "qwen3_30b_a3b_decode_counts:0:17,E=128,P=16,s=2,beta=128,rows=8192"
  PlanConfig config;
  LoadTable loads;
};

inline constexpr int32_t kNumCases = 300;

// `data` is the folder of the shipped traces; reading them needs libzip.
std::vector<OptimumCase> make_cases(const std::string& data);

}  // namespace megaflux::optimum
