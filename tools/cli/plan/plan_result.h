// What `megaflux plan` found: the plan, its figures, and fixed placement beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/load_input.h"
#include "megaflux/moe/layer_shape.h"
#include "megaflux/plan/plan_stats.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

// Bytes of replica weights that each rank takes in and gives out in one pass, [P]; resident
// replicas move none.
struct WeightBytes {
  std::vector<int64_t> in;
  std::vector<int64_t> out;
};
WeightBytes weight_bytes(const Plan& plan, const LayerShape& shape);

struct PlanResult {
  LoadInput input;
  PlanConfig config;
  Plan plan;                // empty if there are orphans
  std::string device = {};  // name of the GPU that planned; empty = the host
  PlanReport report;
  PlanStats stats;
  PlanStats fixed_stats;             // the same loads without replicas
  std::optional<WeightBytes> bytes;  // with a shape
};

// The object of schema megaflux.plan/1.
Json plan_json(const PlanResult& result);
// {expert, rank, slot, first_block, num_blocks, rows} of every instance, by (expert, rank).
Json instances_json(const Plan& plan, const LoadTable& loads);
// The plan's hash as 16 hexadecimal digits.
std::string hash_text(const Plan& plan);

// One line on standard error: there is no legal plan, and which experts have no active owner.
ExitCode report_orphans(const PlanReport& report);

// For people, on standard output.
void print_plan(const PlanResult& result);
// One line a replica: expert, owner, rank and slot, blocks, rows.
void print_replicas(const Plan& plan, const LoadTable& loads);

}  // namespace megaflux::cli
