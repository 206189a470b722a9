#include "megaflux/megaflux.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "megaflux/megaflux_handles.h"
#include "megaflux/plan/cost_model.h"
#include "megaflux/plan/legality.h"
#include "megaflux/plan/plan_stats.h"

using namespace megaflux;
using namespace megaflux::c_abi;

namespace megaflux::c_abi {

megaflux_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadInput:
      return MEGAFLUX_BAD_INPUT;
    case ErrorCode::kUnsupported:
      return MEGAFLUX_UNSUPPORTED;
    case ErrorCode::kTimeout:
      return MEGAFLUX_TIMEOUT;
    case ErrorCode::kDisagree:
      return MEGAFLUX_DISAGREE;
    case ErrorCode::kInternal:
      break;
  }
  return MEGAFLUX_INTERNAL;
}

megaflux_status fail(megaflux_error* error, megaflux_status status, const char* words) {
  if (error != nullptr && error->struct_bytes == sizeof(megaflux_error)) {
    error->status = status;
    const size_t length = std::min(std::strlen(words), sizeof(error->message) - 1);
    std::memcpy(error->message, words, length);
    error->message[length] = '\0';
  }
  return status;
}

}  // namespace megaflux::c_abi

namespace {

template <typename T>
std::span<const T> array_of(const T* values, size_t count, const char* name) {
  MF_CHECK(values != nullptr || count == 0, name, ": is null with ", count, " elements");
  return {values, count};
}

template <typename T>
std::vector<T> table_of(const T* values, size_t count, const char* name) {
  const auto table = array_of(values, count, name);
  return {table.begin(), table.end()};
}

// Of version 1, which ended before send_mb_per_s.
constexpr size_t kFirstMachineBytes = offsetof(megaflux_machine, send_mb_per_s);

void require_machine_size(size_t struct_bytes) {
  if (struct_bytes == kFirstMachineBytes) return;
  require_size(struct_bytes, sizeof(megaflux_machine), "machine");
}

CostModel cost_of(const megaflux_planner_config& config) {
  require_struct(config.shape, "shape");
  const megaflux_layer_shape& given = *config.shape;
  MF_CHECK(given.element_bytes == 2 || given.element_bytes == 4,
           "shape.element_bytes: ", given.element_bytes, " is neither 2 nor 4");
  LayerShape shape;
  shape.num_experts = config.num_experts;
  shape.topk = 1;  // does not enter the cost
  shape.hidden = given.hidden;
  shape.inter = given.inter;
  shape.dtype = given.element_bytes == 2 ? DType::kBf16 : DType::kFp32;
  shape.has_bias = given.has_bias != 0;
  MachineModel machine;
  if (config.machine != nullptr) {
    const megaflux_machine& from = *config.machine;
    require_machine_size(from.struct_bytes);
    require_zero(from.reserved, "machine.reserved");
    machine = {.name = "caller",
               .gflops = from.gflops,
               .link_mb_per_s = from.link_mb_per_s,
               .send_mb_per_s = from.struct_bytes > kFirstMachineBytes ? from.send_mb_per_s : 0,
               .plan_ns = from.plan_ns,
               .pre_gate_ns = from.pre_gate_ns,
               .copy_latency_ns = from.copy_latency_ns,
               .round_ns = from.round_ns};
  }
  const CostScope scope =
      config.covers_backward != 0 ? CostScope::kForwardBackward : CostScope::kForward;
  return make_cost_model(machine, shape, config.block_rows, scope, config.pool_rows);
}

PlanConfig config_of(const megaflux_planner_config& from) {
  PlanConfig config;
  config.planner = enum_of(from.planner, PlannerKind::kBroadcast, "planner");
  config.objective = enum_of(from.objective, Objective::kCost, "objective");
  config.dims = {from.num_experts, from.num_ranks, from.replica_slots, from.block_rows};
  config.lambda_blocks = from.lambda_blocks;
  config.slack_ppm = from.slack_ppm;
  config.min_copy_blocks = from.min_copy_blocks;
  config.min_rows_per_replica = from.min_rows_per_replica;
  config.min_forward_rows = from.min_forward_rows;
  config.owner_of = table_of(from.owner_of, from.num_owner_of, "owner_of");
  config.domain_of = table_of(from.domain_of, from.num_domain_of, "domain_of");
  config.active = table_of(from.active, from.num_active, "active");
  config.base_blocks = table_of(from.base_blocks, from.num_base_blocks, "base_blocks");
  config.speed = table_of(from.speed, from.num_speed, "speed");
  if (from.shape != nullptr) config.cost = cost_of(from);
  return config;
}

// The step's counts, checked, in `outcome`; its resident table.
std::span<const int32_t> take_step(const megaflux_planner& planner, const megaflux_step* step,
                                   Outcome& outcome) {
  require_struct(step, "step");
  require_zero(step->reserved, "step.reserved");
  const PlanDims& dims = planner.config->dims;
  outcome.config = planner.config;
  outcome.loads.assign(dims.num_ranks, dims.num_experts,
                       array_of(step->rows, step->num_rows, "step.rows"));
  return array_of(step->resident, step->num_resident, "step.resident");
}

}  // namespace

extern "C" {

uint32_t megaflux_abi_version(void) {
  return MEGAFLUX_ABI_VERSION;
}

const char* megaflux_version(void) {
  return MF_VERSION;
}

const char* megaflux_status_name(int32_t status) {
  constexpr const char* kNames[] = {"ok",       "bad input", "unsupported",   "timeout",
                                    "disagree", "internal",  "out of memory", "no legal plan"};
  return status >= 0 && status <= MEGAFLUX_NO_LEGAL_PLAN ? kNames[status] : "unknown status";
}

megaflux_status megaflux_parse_planner(const char* name, int32_t* kind, megaflux_error* error) {
  return guarded(error, [&] {
    require(name, "name");
    require(kind, "kind");
    *kind = static_cast<int32_t>(parse_planner(name));
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_parse_objective(const char* name, int32_t* objective,
                                         megaflux_error* error) {
  return guarded(error, [&] {
    require(name, "name");
    require(objective, "objective");
    *objective = static_cast<int32_t>(parse_objective(name));
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_machine_init(megaflux_machine* machine, size_t struct_bytes,
                                      const char* name, megaflux_error* error) {
  return guarded(error, [&] {
    require(machine, "machine");
    require(name, "name");
    require_machine_size(struct_bytes);
    const MachineModel model = machine_model(name);
    const megaflux_machine whole = {.struct_bytes = static_cast<uint32_t>(struct_bytes),
                                    .reserved = 0,
                                    .gflops = model.gflops,
                                    .link_mb_per_s = model.link_mb_per_s,
                                    .plan_ns = model.plan_ns,
                                    .pre_gate_ns = model.pre_gate_ns,
                                    .copy_latency_ns = model.copy_latency_ns,
                                    .round_ns = model.round_ns,
                                    .send_mb_per_s = model.send_mb_per_s};
    std::memcpy(machine, &whole, struct_bytes);
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_planner_config_init(megaflux_planner_config* config, size_t struct_bytes,
                                             megaflux_error* error) {
  return guarded(error, [&] {
    require(config, "config");
    require_size(struct_bytes, sizeof(megaflux_planner_config), "config");
    const PlanConfig defaults;
    *config = {};
    config->struct_bytes = sizeof(megaflux_planner_config);
    config->planner = static_cast<int32_t>(defaults.planner);
    config->objective = static_cast<int32_t>(defaults.objective);
    config->block_rows = defaults.dims.block_rows;
    config->lambda_blocks = defaults.lambda_blocks;
    config->slack_ppm = defaults.slack_ppm;
    config->min_copy_blocks = defaults.min_copy_blocks;
    config->min_rows_per_replica = defaults.min_rows_per_replica;
    config->min_forward_rows = defaults.min_forward_rows;
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_planner_create(const megaflux_planner_config* config,
                                        megaflux_planner** planner, megaflux_error* error) {
  return guarded(error, [&] {
    require_struct(config, "config");
    require(planner, "planner");
    auto handle = std::make_unique<megaflux_planner>();
    handle->planner = make_planner(config_of(*config));
    handle->config = std::make_shared<const PlanConfig>(handle->planner->config());
    *planner = handle.release();
    return MEGAFLUX_OK;
  });
}

void megaflux_planner_destroy(megaflux_planner* planner) {
  delete planner;
}

megaflux_status megaflux_planner_hash(const megaflux_planner* planner, uint64_t* hash,
                                      megaflux_error* error) {
  return guarded(error, [&] {
    require(planner, "planner");
    require(hash, "hash");
    *hash = config_hash(*planner->config);
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_planner_plan(megaflux_planner* planner, const megaflux_step* step,
                                      megaflux_plan* plan, megaflux_error* error) {
  return guarded(error, [&] {
    require(planner, "planner");
    require(plan, "plan");
    Outcome& spare = planner->spare;
    const auto resident = take_step(*planner, step, spare);
    planner->planner->plan(spare.loads, resident, spare.plan, spare.report);
    std::swap(plan->outcome, spare);
    if (plan->outcome.report.has_plan()) return MEGAFLUX_OK;
    return fail(error, MEGAFLUX_NO_LEGAL_PLAN,
                "no legal plan: experts with rows have an inactive owner");
  });
}

megaflux_status megaflux_planner_adopt(megaflux_planner* planner, const megaflux_step* step,
                                       const void* bytes, size_t num_bytes, megaflux_plan* plan,
                                       megaflux_error* error) {
  return guarded(error, [&] {
    require(planner, "planner");
    require(plan, "plan");
    require(bytes, "bytes");
    Outcome& spare = planner->spare;
    const auto resident = take_step(*planner, step, spare);
    spare.plan = adopt_plan({static_cast<const std::byte*>(bytes), num_bytes}, spare.loads,
                            *planner->config, resident);
    spare.report = {};
    spare.report.tau = plan_stats(spare.plan, spare.loads, *planner->config).tau;
    std::swap(plan->outcome, spare);
    return MEGAFLUX_OK;
  });
}

}  // extern "C"
