// The plan half of the C ABI: reading what a plan handle holds.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "megaflux/megaflux.h"
#include "megaflux/megaflux_handles.h"
#include "megaflux/plan/plan_maps.h"
#include "megaflux/plan/plan_stats.h"

using namespace megaflux;
using namespace megaflux::c_abi;

namespace {

template <typename T>
megaflux_status copy_out(std::span<const T> values, T* out, size_t capacity, size_t* count) {
  if (out != nullptr) {
    MF_CHECK(capacity >= values.size(), "capacity: ", capacity, ", there are ", values.size(),
             " elements");
    std::copy(values.begin(), values.end(), out);
  }
  if (count != nullptr) *count = values.size();
  return MEGAFLUX_OK;
}

const Outcome& planned(const megaflux_plan* plan) {
  require(plan, "plan");
  MF_CHECK(!plan->outcome.plan.empty(), "plan: the handle holds no plan");
  return plan->outcome;
}

std::vector<int32_t> array_i32(const Outcome& outcome, megaflux_array_i32 which) {
  const auto copy = [](const auto& values) {
    return std::vector<int32_t>(values.begin(), values.end());
  };
  switch (which) {
    case MEGAFLUX_OWNER_OF:
      return copy(outcome.plan.owner_of());
    case MEGAFLUX_SLOT_EXPERT:
      return copy(outcome.plan.slot_expert());
    case MEGAFLUX_SLOT_RESIDENT:
      return copy(outcome.plan.slot_resident());
    case MEGAFLUX_EXPERTS_TO_COPY:
      return plan_maps(outcome.plan).experts_to_copy;
    case MEGAFLUX_SOURCE_SLOTS:
      return plan_maps(outcome.plan).source_slots;
    case MEGAFLUX_RANK_BEGIN:
      return plan_maps(outcome.plan).rank_begin;
    case MEGAFLUX_PHYSICAL_TO_LOGICAL:
      return plan_maps(outcome.plan).physical_to_logical;
    case MEGAFLUX_LOGICAL_TO_PHYSICAL:
      return plan_maps(outcome.plan).logical_to_physical;
    case MEGAFLUX_LOGICAL_REPLICA_COUNT:
      return plan_maps(outcome.plan).logical_replica_count;
    case MEGAFLUX_ORPHANS:
      break;
  }
  return outcome.report.orphans;
}

std::vector<int64_t> array_i64(const Outcome& outcome, megaflux_array_i64 which) {
  if (which == MEGAFLUX_TRAFFIC_ROWS) return traffic_rows(outcome.plan, outcome.loads);
  PlanStats stats = plan_stats(outcome.plan, outcome.loads, *outcome.config);
  switch (which) {
    case MEGAFLUX_LOAD_BLOCKS:
      return std::move(stats.load_blocks);
    case MEGAFLUX_LOAD_ROWS:
      return std::move(stats.load_rows);
    case MEGAFLUX_PADDED_ROWS:
      return std::move(stats.padded_rows);
    default:
      return std::move(stats.finish);
  }
}

}  // namespace

extern "C" {

megaflux_status megaflux_plan_create(megaflux_plan** plan, megaflux_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    *plan = new megaflux_plan;
    return MEGAFLUX_OK;
  });
}

void megaflux_plan_destroy(megaflux_plan* plan) {
  delete plan;
}

megaflux_status megaflux_plan_get_info(const megaflux_plan* plan, megaflux_plan_info* info,
                                       megaflux_error* error) {
  return guarded(error, [&] {
    const Outcome& outcome = planned(plan);
    require_struct(info, "info");
    const PlanHeader& header = outcome.plan.header();
    const PlanReport& report = outcome.report;
    const auto prediction = [](const std::optional<uint64_t>& ns) {
      return ns ? static_cast<int64_t>(std::min<uint64_t>(*ns, INT64_MAX)) : -1;
    };
    *info = {.struct_bytes = sizeof(megaflux_plan_info),
             .flags = header.flags,
             .num_experts = header.num_experts,
             .num_ranks = header.num_ranks,
             .replica_slots = header.replica_slots,
             .block_rows = header.block_rows,
             .num_instances = header.num_instances,
             .num_copies = header.num_copies,
             .max_blocks = header.max_blocks,
             .max_copies = plan_maps(outcome.plan).max_copies,
             .search_id = header.search_id,
             .gate = static_cast<int32_t>(report.gate),
             .tau = report.tau,
             .predicted_ns = prediction(report.predicted_ns),
             .predicted_fixed_ns = prediction(report.predicted_fixed_ns),
             .objective = header.objective,
             .hash = header.hash};
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_plan_bytes(const megaflux_plan* plan, const void** bytes,
                                    size_t* num_bytes, megaflux_error* error) {
  return guarded(error, [&] {
    const Outcome& outcome = planned(plan);
    require(bytes, "bytes");
    require(num_bytes, "num_bytes");
    *bytes = outcome.plan.bytes().data();
    *num_bytes = outcome.plan.bytes().size();
    return MEGAFLUX_OK;
  });
}

megaflux_status megaflux_plan_copy_instances(const megaflux_plan* plan, megaflux_instance* out,
                                             size_t capacity, size_t* count,
                                             megaflux_error* error) {
  return guarded(error, [&] {
    const Outcome& outcome = planned(plan);
    const PlanDims dims = outcome.plan.dims();
    std::vector<megaflux_instance> instances;
    for (int32_t e = 0; e < dims.num_experts; ++e) {
      for (const Instance& at : outcome.plan.instances_of(e)) {
        const int64_t rows =
            outcome.loads.rows_in_blocks(e, at.first_block, at.num_blocks, dims.block_rows);
        instances.push_back(
            {e, at.rank, at.slot, at.first_block, at.num_blocks, static_cast<int32_t>(rows)});
      }
    }
    return copy_out<megaflux_instance>(instances, out, capacity, count);
  });
}

megaflux_status megaflux_plan_copy_i32(const megaflux_plan* plan, int32_t which, int32_t* out,
                                       size_t capacity, size_t* count, megaflux_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    const auto array = enum_of(which, MEGAFLUX_ORPHANS, "which");
    if (array != MEGAFLUX_ORPHANS) planned(plan);
    return copy_out<int32_t>(array_i32(plan->outcome, array), out, capacity, count);
  });
}

megaflux_status megaflux_plan_copy_i64(const megaflux_plan* plan, int32_t which, int64_t* out,
                                       size_t capacity, size_t* count, megaflux_error* error) {
  return guarded(error, [&] {
    const auto array = enum_of(which, MEGAFLUX_TRAFFIC_ROWS, "which");
    return copy_out<int64_t>(array_i64(planned(plan), array), out, capacity, count);
  });
}

}  // extern "C"
