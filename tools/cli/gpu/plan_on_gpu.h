// `plan --backend cuda`: a step planned by the planner of one device. Without CUDA, both functions
// throw kUnsupported.
#pragma once

#include <cstdint>
#include <span>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

// Throws kUnsupported naming the field, its value and the device's limit if no device plans under
// `config`.
void check_plans_on_gpu(const PlanConfig& config);

// What a device says of a step; the plan is empty if there is none that is legal.
struct GpuPlan {
  Plan plan;
  GateDecision gate = GateDecision::kNotAsked;
  int64_t tau = 0;
};

// Plans one step on `device`, a CUDA ordinal that require_gpu() has let through; `resident` is [P
// s] or empty. Throws kBadInput if the step has more rows than a device plans.
GpuPlan plan_on_gpu(const PlanConfig& config, int32_t device, const LoadTable& loads,
                    std::span<const int32_t> resident);

}  // namespace megaflux::cli
