#include "megaflux/layer/cpu/layer_fields.h"

#include "megaflux/base/math.h"

namespace megaflux {

LayerFields add_layer_fields(Layout& layout, const CpuLayerConfig& config,
                             const RouteFields& routes) {
  const LayerShape& shape = config.shape;
  const auto pairs = static_cast<size_t>(config.max_tokens) * shape.topk;
  const auto slots = static_cast<size_t>(config.replica_slots);
  const auto row_bytes = static_cast<size_t>(shape.hidden * dtype_bytes(shape.dtype));
  const auto groups = static_cast<size_t>(ceil_div(config.max_tokens, kTokenGroup));
  return {.routes = routes,
          .inputs = layout.add<PublishedInputs>("layer.inputs", 1),
          .results = layout.add<std::byte>("layer.results", pairs * row_bytes),
          .dp = layout.add<float>("layer.dp", pairs),
          .y_count = layout.add_counters("layer.y_count", groups),
          .tiles_pulled = layout.add_counters("layer.tiles_pulled", 1),
          .tiles_done = layout.add_counters("layer.tiles_done", 1),
          .parts_done = layout.add_counters("layer.parts_done", 1),
          .w1_ready = layout.add_epochs("layer.w1_ready", slots),
          .w2_ready = layout.add_epochs("layer.w2_ready", slots),
          .gradient_ready = layout.add_epochs("layer.gradient_ready", slots),
          .gradient_slots = layout.add<float>(
              "layer.gradient_slots", slots * static_cast<size_t>(gradient_elements(shape)))};
}

}  // namespace megaflux
