#include <algorithm>

#include "cli/plan/plan_result.h"
#include "cli/run/run_report.h"

namespace megaflux::cli {
namespace {

constexpr const char* kTrafficNames[kNumTraffic] = {"dispatch", "combine", "weights", "gradients"};

Json case_json(const RunResult& result) {
  const Workload& workload = *result.workload;
  const RunOptions& options = *result.options;
  const LayerShape& shape = workload.shape();
  return {{"routing", workload.origin()},
          {"num_experts", shape.num_experts},
          {"topk", shape.topk},
          {"num_ranks", workload.num_ranks()},
          {"replica_slots", options.plan.replica_slots},
          {"block_rows", options.plan.block_rows},
          {"hidden", shape.hidden},
          {"inter", shape.inter},
          {"dtype", dtype_name(shape.dtype)},
          {"planner", options.plan_file.empty() ? options.plan.planner : "outside"},
          {"objective", options.plan.objective},
          {"backend", options.backend},
          {"passes", options.has_backward() ? "both" : "forward"},
          {"z", options.is_on_gpu() ? Json() : Json(options.z)},
          {"seed", options.seed},
          {"tokens", workload.num_tokens()},
          {"rows", workload.loads().total_rows()},
          {"inject", options.fault.empty() ? Json() : Json(options.fault)}};
}

// {kind: {in: [P], out: [P]}}.
Json bytes_json(const StepReport& report) {
  Json json = Json::object();
  for (int32_t k = 0; k < kNumTraffic; ++k) {
    std::vector<int64_t> in, out;
    for (int32_t rank = 0; rank < static_cast<int32_t>(report.ranks.size()); ++rank) {
      in.push_back(report.bytes_in(static_cast<Traffic>(k), rank));
      out.push_back(report.bytes_out(static_cast<Traffic>(k), rank));
    }
    json[kTrafficNames[k]] = {{"in", in}, {"out", out}};
  }
  return json;
}

// What ranks as threads count besides.
void add_thread_figures(const StepReport& report, Json& json) {
  std::vector<double> compute_ms, comm_ms, wall_ms;
  for (const RankReport& rank : report.ranks) {
    compute_ms.push_back(static_cast<double>(rank.compute_cpu_ns) * 1e-6);
    comm_ms.push_back(static_cast<double>(rank.comm_cpu_ns) * 1e-6);
    wall_ms.push_back(static_cast<double>(rank.wall_ns) * 1e-6);
  }
  json["compute_cpu_ms"] = compute_ms;
  json["comm_cpu_ms"] = comm_ms;
  json["wall_ms"] = wall_ms;
  json["bytes"] = bytes_json(report);
}

Json pass_json(const Execution& execution, const StepReport& report) {
  std::vector<int64_t> rows, tiles, rounds;
  for (const RankReport& rank : report.ranks) {
    rows.push_back(rank.rows);
    tiles.push_back(rank.tiles);
    rounds.push_back(rank.rounds);
  }
  Json json = {{"rows", rows},
               {"tiles", tiles},
               {"rounds", rounds},
               {"layer_ms", static_cast<double>(report.layer_ns) * 1e-6},
               {"head_us", static_cast<double>(report.head_ns) * 1e-3},
               {"peak_rows", report.peak_rows()}};
  if (!execution.gpu) add_thread_figures(report, json);
  return json;
}

Json errors_json(const Execution& execution, const OutputErrors& errors) {
  Json json = {{"y", errors.y}};
  if (!execution.has_backward()) return json;
  json["dx"] = errors.dx;
  json["dp"] = errors.dp;
  json["dw"] = errors.dw;
  return json;
}

Json memory_json(const RankMemory& memory) {
  const LayerMemory& layer = memory.layer;
  return {{"pools", layer.pools},
          {"results", layer.results},
          {"z", memory.z},
          {"packed_weights", layer.packed_weights},
          {"replica_slots", layer.replica_slots},
          {"gradient_slots", layer.gradient_slots},
          {"tiles", layer.tiles},
          {"routes", layer.routes}};
}

Json gpu_memory_json(const GpuFigures& gpu) {
  const MegaMemory& memory = gpu.memory;
  return {{"tokens", memory.tokens},
          {"results", memory.results},
          {"signals", memory.signals},
          {"head", gpu.head_bytes},
          {"rows", memory.rows},
          {"activations", memory.activations},
          {"tables", memory.tables},
          {"weights", memory.weights},
          {"replica_slots", memory.replica_slots}};
}

// The ranks of each device; null on the CPU.
Json devices_json(const RunResult& result) {
  if (result.gpus.empty()) return {};
  Json list = Json::array();
  for (const GpuRanks& gpu : result.gpus) {
    list.push_back({{"ordinal", gpu.ordinal},
                    {"name", gpu.device.name},
                    {"uuid", gpu.device.uuid},
                    {"sms", gpu.device.num_sms},
                    {"first_rank", gpu.first_rank},
                    {"ranks", gpu.num_ranks},
                    {"virtual", gpu.are_virtual()}});
  }
  return list;
}

Json execution_json(const RunResult& result, const Execution& execution,
                    const OutputErrors& errors) {
  Json json = {{"finished", execution.has_finished()}};
  if (!execution.has_finished()) {
    json["failure"] = execution.failure;
    return json;
  }
  const PlanStats& stats = execution.stats;
  json["plan_hash"] = hash_text(execution.plan);
  json["load_rows"] = stats.load_rows;
  json["load_blocks"] = stats.load_blocks;
  json["tau"] = stats.tau;
  json["imbalance"] = stats.rows.imbalance;
  json["replicas"] = stats.num_replicas;
  json["copies"] = stats.num_copies;
  json["remote_rows"] = stats.remote_rows ? Json(*stats.remote_rows) : Json();
  json["peak_rows"] = execution.forward.peak_rows();
  json["pool_rows"] = execution.pool_rows;
  json["rank_memory_bytes"] = execution.memory_bytes();
  json["rank_memory_parts"] =
      execution.gpu ? gpu_memory_json(*execution.gpu) : memory_json(execution.memory);
  json["forward"] = pass_json(execution, execution.forward);
  json["backward"] = execution.has_backward() ? pass_json(execution, execution.backward) : Json();
  json["errors"] = result.outcome.expected ? errors_json(execution, errors) : Json();
  return json;
}

Json checks_json(const std::vector<Check>& checks) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"what", check.what},
                    {"holds", check.holds},
                    {"value", number(check.value)},
                    {"limit", number(check.limit)},
                    {"detail", check.detail}});
  }
  return list;
}

// True or false, or null if the check was not made.
Json verdict_of(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::find_if(checks.begin(), checks.end(),
                                  [&](const Check& check) { return check.name == name; });
  return found == checks.end() ? Json() : Json(found->holds);
}

// What the replicated execution adds at the top level, so that scripts find it at once.
void add_replication(const Workload& workload, const Execution& execution, Json& json) {
  json["replicas"] = execution.stats.num_replicas;
  json["instances"] = instances_json(execution.plan, workload.loads());
  json["rows_from_slots"] = rows_from_slots(execution);
  if (execution.gpu) return;  // kernels count no bytes
  json["bytes_between_ranks"] =
      moved_bytes(execution, Traffic::kDispatch) + moved_bytes(execution, Traffic::kCombine);
  json["bytes_into_slots"] = moved_bytes(execution, Traffic::kWeights);
  json["bytes_of_gradients"] = moved_bytes(execution, Traffic::kGradients);
}

}  // namespace

Json run_json(const RunResult& result) {
  const RunOutcome& outcome = result.outcome;
  Json json = {{"schema", "megaflux.run/1"}, {"version", MF_VERSION}, {"case", case_json(result)}};
  json["kappa"] = kappa(result.workload->loads());
  json["imbalance_before"] = owner_imbalance(result.workload->loads(), result.workload->owner_of());
  json["imbalance_after"] =
      outcome.replicated.has_finished() ? Json(outcome.replicated.stats.rows.imbalance) : Json();
  if (outcome.replicated.has_finished()) {
    add_replication(*result.workload, outcome.replicated, json);
  }
  json["gemm"] = outcome.fixed.gemm;
  json["devices"] = devices_json(result);
  json["notes"] = run_notes(result);
  json["fixed"] = execution_json(result, outcome.fixed, outcome.fixed_errors);
  json["replicated"] = execution_json(result, outcome.replicated, outcome.replicated_errors);
  json["reference"] = !outcome.expected              ? Json()
                      : outcome.expected->is_sampled ? Json("sampled")
                                                     : Json("whole");
  json["bitwise"] = {{"y", verdict_of(result.checks, "y-bitwise")},
                     {"dx", verdict_of(result.checks, "dx-bitwise")}};
  json["checks"] = checks_json(result.checks);
  json["all_hold"] = all_hold(result.checks);
  Json failed = Json::array();
  for (const Check& check : result.checks) {
    if (!check.holds) failed.push_back(check.name);
  }
  json["failed_checks"] = failed;
  json["seconds"] = result.seconds;
  return json;
}

}  // namespace megaflux::cli
