#include "cli/run/run_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/doctor/machine_probe.h"
#include "cli/run/expected.h"
#include "cli/text_format.h"
#include "megaflux/base/check.h"
#include "megaflux/comm/row_map.h"
#include "megaflux/layer/cpu/layer_config.h"

namespace megaflux::cli {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Of one token or row.
int64_t row_bytes(const LayerShape& shape) {
  return shape.hidden * dtype_bytes(shape.dtype);
}

int64_t parameters(const LayerShape& shape) {
  return shape.w1_elements() + shape.w2_elements();
}

// Ids and routing weights are there already, and are no part of what is still available.
RunNeed inputs(const Workload& workload) {
  const LayerShape& shape = workload.shape();
  return {.weights = shape.num_experts * shape.expert_bytes(),
          .tokens = 2 * workload.num_tokens() * row_bytes(shape)};
}

// Of one execution.
void add_outputs(const Workload& workload, const RunOptions& options, bool has_gradients,
                 RunNeed& need) {
  const LayerShape& shape = workload.shape();
  const int64_t num_tokens = workload.num_tokens();
  need.results += num_tokens * row_bytes(shape);
  if (!options.has_backward()) return;
  need.results += num_tokens * (row_bytes(shape) + shape.topk * kFloatBytes);
  if (has_gradients) need.gradients += shape.num_experts * shape.expert_gradient_bytes();
}

// What is written as far as the plan says so, of a session with the configuration `layer`.
void add_planned(const Workload& workload, const RunOptions& options, const ExecutionTask& task,
                 const CpuLayerConfig& layer, RunNeed& need) {
  const Plan plan = preview_plan(workload, task);
  if (plan.empty()) return;
  const LayerShape& shape = workload.shape();
  const int64_t num_passes = options.has_backward() ? 2 : 1;
  int64_t pool_rows = 0;
  for (const int64_t rows : plan_stats(plan, workload.loads(), task.plan).load_rows) {
    pool_rows += std::min(rows, layer.pool_rows);
  }
  need.row_pools += num_passes * pool_rows * row_bytes(shape);
  if (options.has_backward() && options.z == "saved") {
    need.activations += pool_rows * 2 * shape.inter * dtype_bytes(shape.dtype);
  }
  if (shape.dtype == DType::kFp32) return;  // GEMMs read the weights where they lie
  // Two forms in fp32 that both passes read, or two in bf16 a pass.
  const bool is_narrow = operand_dtype(layer.gemm) == DType::kBf16;
  const int64_t pack_bytes = parameters(shape) * (is_narrow ? 2 * num_passes : kFloatBytes);
  for (int32_t e = 0; e < shape.num_experts; ++e) {
    need.packed_weights +=
        pack_bytes * std::ranges::count_if(plan.instances_of(e), [](const Instance& instance) {
          return instance.num_blocks > 0;
        });
  }
}

void add_session(const Workload& workload, const RunOptions& options, const ExecutionTask& task,
                 RunNeed& need) {
  // Rows of GEMMs that are not asked for are measured, which takes memory itself.
  const CpuLayerConfig layer =
      resolve_config({.shape = workload.shape(),
                      .num_ranks = workload.num_ranks(),
                      .replica_slots = task.plan.dims.replica_slots,
                      .max_tokens = workload.max_tokens(),
                      .pool_rows = options.capacity_rows,
                      .owner_of = {workload.owner_of().begin(), workload.owner_of().end()},
                      .gemm_rows = kTileRows});
  const LayerMemory memory = layer_memory(layer);
  need.results += layer.num_ranks * memory.results;
  need.replica_slots += layer.num_ranks * (memory.replica_slots + memory.gradient_slots);
  need.routes += layer.num_ranks * memory.routes + workload.num_tokens() * layer.shape.topk *
                                                       (int64_t{sizeof(int32_t)} + kFloatBytes);
  need.row_pools += layer.num_ranks * layer.pool_rows * (kFloatBytes + int64_t{sizeof(RowOrigin)});
  // About half of the tiles belong to the backward.
  need.activations += layer.num_ranks * memory.tiles / (options.has_backward() ? 1 : 2);
  add_planned(workload, options, task, layer, need);
}

void add_reference(const Workload& workload, const RunOptions& options, RunNeed& need) {
  const LayerShape& shape = workload.shape();
  const int64_t token_elements = workload.num_tokens() * shape.hidden;
  need.reference += token_elements * int64_t{sizeof(double)};
  if (!options.has_backward()) return;
  need.reference += (token_elements + workload.num_tokens() * shape.topk +
                     shape.num_experts * parameters(shape)) *
                    int64_t{sizeof(double)};
}

std::string text(int64_t bytes) {
  return bytes_text(static_cast<uint64_t>(bytes));
}

}  // namespace

RunNeed peak_need(const Workload& workload, const RunOptions& options, const ExecutionTask& fixed,
                  const ExecutionTask& replicated) {
  const bool is_whole = can_check_all(workload);
  RunNeed first = inputs(workload);
  add_outputs(workload, options, true, first);
  add_session(workload, options, fixed, first);
  RunNeed second = inputs(workload);
  add_outputs(workload, options, is_whole, second);  // of the fixed execution
  RunNeed last = second;
  add_outputs(workload, options, true, second);
  add_session(workload, options, replicated, second);
  add_outputs(workload, options, is_whole, last);
  if (is_whole) add_reference(workload, options, last);
  return std::ranges::max({first, second, last}, {}, &RunNeed::total);
}

void require_available(const std::string& asker, int64_t bytes, const std::string& parts) {
  const auto available = static_cast<int64_t>(probe_cpu().available_memory_bytes);
  if (available == 0 || bytes <= available) return;
  throw_error(ErrorCode::kUnsupported, asker, ": not run: memory; needs ", text(bytes), " (", parts,
              ") and has ", text(available), " available");
}

void require_available(const std::string& asker, const RunNeed& need) {
  require_available(
      asker, need.total(),
      fmt::format(
          "weights {}, packed weights {}, replica slots {}, tokens {}, routes {}, row pools {}, "
          "activations {}, results {}, gradients {}, reference {}",
          text(need.weights), text(need.packed_weights), text(need.replica_slots),
          text(need.tokens), text(need.routes), text(need.row_pools), text(need.activations),
          text(need.results), text(need.gradients), text(need.reference)));
}

}  // namespace megaflux::cli
