#include "cli/gpu/gpu_memory.h"

#include <fmt/format.h>

#include "cli/gpu/gpu_backend.h"
#include "cli/text_format.h"
#include "megaflux/base/check.h"
#include "megaflux/head/device_head_fields.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/device_planner_params.h"

namespace megaflux::cli {
namespace {

// Of the head's fields in the heap of a rank.
int64_t head_bytes(const MegaConfig& layer, const PlanConfig& plan, int32_t device_sms) {
  Layout layout;
  add_device_head_fields(layout,
                         {.plan = plan, .topk = layer.shape.topk, .max_tokens = layer.max_tokens},
                         {.max_ctas = device_sms, .report_bytes = sizeof(DevicePlanReport)});
  return static_cast<int64_t>(layout.total_bytes());
}

int64_t tensor_bytes(const MegaConfig& layer) {
  // Peers read x in the heap, which is among the tokens of the layer.
  const int64_t num_matrices = layer.num_ranks == 1 ? 2 : 1;
  const int64_t row_bytes = int64_t{layer.shape.hidden} * dtype_bytes(layer.shape.dtype);
  const int64_t route_bytes = int64_t{layer.shape.topk} * (sizeof(int32_t) + sizeof(float));
  return layer.max_tokens * (num_matrices * row_bytes + route_bytes);
}

std::string text(int64_t bytes) {
  return bytes_text(static_cast<uint64_t>(bytes));
}

std::string describe(const DeviceNeed& need) {
  const MegaMemory& layer = need.layer;
  return fmt::format(
      "weights {}, replica slots {}, row pools {}, activations {}, tokens {}, results {}, tables "
      "{}, y and ids {}",
      text(layer.weights), text(layer.replica_slots), text(layer.rows), text(layer.activations),
      text(layer.tokens), text(layer.results), text(layer.tables + layer.signals + need.head),
      text(need.tensors));
}

}  // namespace

void add_weights(const LayerShape& shape, std::span<const int32_t> owner_of,
                 std::span<const int32_t> device_of, DeviceNeeds& needs) {
  for (const int32_t owner : owner_of) {
    needs[device_of[owner]].layer.weights += shape.expert_bytes();
  }
}

void add_session(const MegaConfig& layer, const PlanConfig& plan, int32_t device_sms,
                 std::span<const int32_t> device_of, DeviceNeeds& needs) {
  const MegaMemory memory = mega_memory(layer);
  const int64_t head = head_bytes(layer, plan, device_sms);
  for (const int32_t device : device_of) {
    DeviceNeed& need = needs[device];
    need.layer.tokens += memory.tokens;
    need.layer.results += memory.results;
    need.layer.signals += memory.signals;
    need.layer.rows += memory.rows;
    need.layer.activations += memory.activations;
    need.layer.tables += memory.tables;
    need.layer.replica_slots += memory.replica_slots;
    need.head += head;
    need.tensors += tensor_bytes(layer);
  }
}

void require_memory(const std::string& asker, const DeviceNeeds& needs) {
  for (size_t device = 0; device < needs.size(); ++device) {
    const int64_t free_bytes = free_memory(static_cast<int32_t>(device));
    const int64_t total = needs[device].total();
    if (total <= free_bytes) continue;
    throw_error(ErrorCode::kUnsupported, asker, ": not run: memory; device ", device, " needs ",
                text(total), " (", describe(needs[device]), ") and has ", text(free_bytes),
                " free");
  }
}

}  // namespace megaflux::cli
