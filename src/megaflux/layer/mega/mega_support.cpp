#include "megaflux/layer/mega/mega_support.h"

#include "megaflux/base/check.h"
#include "megaflux/layer/mega/mega_fields.h"

namespace megaflux {
namespace {

template <typename T>
int64_t bytes_of(const Field<T>& field) {
  return static_cast<int64_t>(field.count * sizeof(T));
}

}  // namespace

MegaMemory mega_memory(const MegaConfig& config) {
  Layout heap, space;
  const MegaFields shared = add_mega_fields(heap, config);
  const WorkspaceFields own = add_workspace_fields(space, config);
  MegaMemory memory;
  memory.tokens = bytes_of(shared.tokens);
  memory.results = bytes_of(shared.results);
  memory.signals = static_cast<int64_t>(heap.total_bytes()) - memory.tokens - memory.results;
  memory.rows = bytes_of(own.x);
  memory.activations = bytes_of(own.a);
  memory.replica_slots =
      bytes_of(own.slot_w1) + bytes_of(own.slot_w2) + bytes_of(own.slot_b1) + bytes_of(own.slot_b2);
  memory.tables = static_cast<int64_t>(space.total_bytes()) - memory.rows - memory.activations -
                  memory.replica_slots;
  memory.weights = config.most_owned * config.shape.expert_bytes();
  return memory;
}

std::string describe(const MegaMemory& memory) {
  const auto part = [](const char* name, int64_t bytes) { return name + std::to_string(bytes); };
  return part("tokens ", memory.tokens) + part(", results ", memory.results) +
         part(", signals ", memory.signals) + part(", row pool ", memory.rows) +
         part(", activations ", memory.activations) + part(", tables ", memory.tables) +
         part(", weights ", memory.weights) + part(", replica slots ", memory.replica_slots);
}

MegaSupport supports(const MegaConfig& config, int32_t rank_sms, int64_t memory_limit_bytes) {
  MegaSupport support;
  MegaConfig resolved;
  std::string reason;
  try {
    resolved = resolve_config(config, rank_sms);
  } catch (const Error& error) {
    reason = error.what();
  }
  support.require(reason.empty(), "a layer within the limits of a device", reason);
  if (!reason.empty()) return support;
  support.memory = mega_memory(resolved);
  const int64_t total = support.memory.total();
  support.require(memory_limit_bytes == 0 || total <= memory_limit_bytes,
                  std::to_string(total) + " bytes a rank (" + describe(support.memory) + ")",
                  "the limit is " + std::to_string(memory_limit_bytes) + " bytes");
  return support;
}

}  // namespace megaflux
