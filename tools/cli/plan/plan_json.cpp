#include <fmt/format.h>

#include <algorithm>

#include "cli/plan/plan_result.h"

namespace megaflux::cli {
namespace {

Json microseconds_or_null(const std::optional<uint64_t>& ns) {
  return ns ? Json(static_cast<double>(*ns) / 1000) : Json();
}

Json gate_json(const PlanReport& report) {
  return {{"decision", gate_name(report.gate)},
          {"predicted_us", microseconds_or_null(report.predicted_ns)},
          {"predicted_fixed_us", microseconds_or_null(report.predicted_fixed_ns)}};
}

// Figures of the finish times of active ranks: what the planner evens out.
struct FinishSpread {
  int64_t max = 0;
  double mean = 0;
  double imbalance = 1;
};

FinishSpread spread_of(const PlanResult& result) {
  FinishSpread spread;
  int64_t sum = 0, num_active = 0;
  for (size_t rank = 0; rank < result.stats.finish.size(); ++rank) {
    if (!result.config.active.empty() && result.config.active[rank] == 0) continue;
    spread.max = std::max(spread.max, result.stats.finish[rank]);
    sum += result.stats.finish[rank];
    ++num_active;
  }
  if (num_active > 0) spread.mean = static_cast<double>(sum) / static_cast<double>(num_active);
  if (sum > 0) spread.imbalance = static_cast<double>(spread.max) / spread.mean;
  return spread;
}

// With orphans there is no plan: lists are empty, figures null.
Json json_without_plan(const PlanResult& result, Json json) {
  for (const char* key : {"owner_of", "instances", "load_blocks", "load_rows", "finish"}) {
    json[key] = Json::array();
  }
  for (const char* key : {"tau", "max", "mean", "imbalance", "replicas", "moved_blocks",
                          "remote_rows", "bytes_in", "bytes_out"}) {
    json[key] = Json();
  }
  json["gate"] = gate_json(result.report);
  json["orphans"] = result.report.orphans;
  return json;
}

}  // namespace

std::string hash_text(const Plan& plan) {
  return fmt::format("{:016x}", plan.hash());
}

Json instances_json(const Plan& plan, const LoadTable& loads) {
  const PlanDims dims = plan.dims();
  Json list = Json::array();
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      list.push_back({{"expert", e},
                      {"rank", instance.rank},
                      {"slot", instance.slot},
                      {"first_block", instance.first_block},
                      {"num_blocks", instance.num_blocks},
                      {"rows", loads.rows_in_blocks(e, instance.first_block, instance.num_blocks,
                                                    dims.block_rows)}});
    }
  }
  return list;
}

Json plan_json(const PlanResult& result) {
  const PlanDims dims = result.report.has_plan() ? result.plan.dims() : result.config.dims;
  Json json = {{"schema", "megaflux.plan/1"},
               {"planner", planner_name(result.config.planner)},
               {"objective", objective_name(result.config.objective)},
               {"num_experts", dims.num_experts},
               {"num_ranks", dims.num_ranks},
               {"block_rows", dims.block_rows},
               {"replica_slots", dims.replica_slots},
               {"device", result.device.empty() ? Json() : Json(result.device)}};
  if (!result.report.has_plan()) return json_without_plan(result, std::move(json));
  const PlanStats& stats = result.stats;
  const FinishSpread spread = spread_of(result);
  json["owner_of"] = result.plan.owner_of();
  json["instances"] = instances_json(result.plan, result.input.loads);
  json["load_blocks"] = stats.load_blocks;
  json["load_rows"] = stats.load_rows;
  json["finish"] = stats.finish;
  json["tau"] = stats.tau;
  json["max"] = spread.max;
  json["mean"] = spread.mean;
  json["imbalance"] = spread.imbalance;
  json["replicas"] = stats.num_replicas;
  json["moved_blocks"] = stats.moved_blocks;
  json["remote_rows"] = stats.remote_rows ? Json(*stats.remote_rows) : Json();
  json["bytes_in"] = result.bytes ? Json(result.bytes->in) : Json();
  json["bytes_out"] = result.bytes ? Json(result.bytes->out) : Json();
  json["gate"] = gate_json(result.report);
  json["orphans"] = Json::array();
  json["copies"] = stats.num_copies;
  json["kappa"] = kappa(result.input.loads);
  json["total_rows"] = result.input.loads.total_rows();
  json["peak_padded_rows"] = stats.peak_padded_rows;
  json["slots_needed"] = result.report.slots_needed;
  json["moved_owners"] = result.report.moved_owners;
  json["search_id"] = result.plan.header().search_id;
  json["hash"] = hash_text(result.plan);
  json["fixed"] = {{"load_blocks", result.fixed_stats.load_blocks},
                   {"load_rows", result.fixed_stats.load_rows},
                   {"imbalance", result.fixed_stats.blocks.imbalance}};
  return json;
}

}  // namespace megaflux::cli
