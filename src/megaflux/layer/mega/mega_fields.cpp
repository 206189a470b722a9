#include "megaflux/layer/mega/mega_fields.h"

#include "megaflux/base/math.h"

namespace megaflux {

MegaFields add_mega_counters(Layout& layout, const MegaConfig& config) {
  const auto groups = static_cast<size_t>(ceil_div(config.max_tokens, kCountedTokens));
  const auto tiles = static_cast<size_t>(config.max_tiles());
  const auto slots = static_cast<size_t>(config.replica_slots);
  MegaFields fields;
  fields.y_count = layout.add_counters("mega.y_count", groups);
  fields.x_full = layout.add_counters("mega.x_full", tiles);
  fields.a_full = layout.add_counters("mega.a_full", tiles);
  fields.o_done = layout.add_counters("mega.o_done", tiles);
  fields.w1_ready = layout.add_counters("mega.w1_ready", slots * config.fc1_columns());
  fields.w2_ready = layout.add_counters("mega.w2_ready", slots * config.fc2_columns());
  fields.next_task = layout.add_counters("mega.next_task", 1);
  fields.next_slice = layout.add_counters("mega.next_slice", 1);
  return fields;
}

MegaFields add_mega_fields(Layout& layout, const MegaConfig& config) {
  MegaFields fields = add_mega_counters(layout, config);
  const auto results = static_cast<size_t>(config.max_tokens) * config.shape.topk;
  const auto slots = static_cast<size_t>(config.replica_slots);
  const size_t tokens = config.num_ranks > 1 ? static_cast<size_t>(config.max_tokens) : 0;
  fields.tokens = layout.add<Bf16>("mega.tokens", tokens * config.shape.hidden);
  fields.results = layout.add<Bf16>("mega.results", results * config.shape.hidden);
  fields.slot_experts = layout.add<int32_t>("mega.slot_experts", slots * config.num_ranks);
  fields.slot_key = layout.add<SlotKey>("mega.slot_key", 1);
  return fields;
}

WorkspaceFields add_workspace_fields(Layout& layout, const MegaConfig& config) {
  const LayerShape& shape = config.shape;
  const auto rows = static_cast<size_t>(config.pool_rows);
  const auto slots = static_cast<size_t>(config.replica_slots);
  const size_t biased = shape.has_bias ? slots : 0;
  const auto tiles = static_cast<size_t>(config.max_tiles());
  return {.x = layout.add<Bf16>("mega.x", rows * config.shape.hidden),
          .a = layout.add<Bf16>("mega.a", rows * config.shape.inter),
          .origins = layout.add<RowOrigin>("mega.origins", tiles * kTileRows),
          .units = layout.add<Unit>("mega.units", tiles + 1),
          .num_units = layout.add<int32_t>("mega.num_units", 1),
          .runs = layout.add<WeightRun>("mega.runs", kMaxWeightRuns),
          .pulled = layout.add<PulledSlots>("mega.pulled", 1),
          .slot_w1 = layout.add<Bf16>("mega.slot_w1", slots * shape.w1_elements()),
          .slot_w2 = layout.add<Bf16>("mega.slot_w2", slots * shape.w2_elements()),
          .slot_b1 = layout.add<float>("mega.slot_b1", biased * 2 * shape.inter),
          .slot_b2 = layout.add<float>("mega.slot_b2", biased * shape.hidden)};
}

}  // namespace megaflux
