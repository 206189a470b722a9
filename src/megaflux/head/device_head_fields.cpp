#include "megaflux/head/device_head_fields.h"

#include "megaflux/base/check.h"

namespace megaflux {

DeviceHeadFields add_device_head_fields(Layout& layout, const HeadConfig& config,
                                        const DeviceHeadLimits& limits) {
  const PlanDims& dims = config.plan.dims;
  const RouteFields routes = add_head_fields(layout, config);  // checks E, K and T_max
  MF_CHECK(dims.num_experts <= kMaxDeviceExperts, "num_experts: ", dims.num_experts,
           " on a device, at most ", kMaxDeviceExperts, " are supported");
  MF_CHECK(limits.max_ctas >= kMinHeadCtas, "max_ctas: ", limits.max_ctas,
           " of a rank, a head needs ", kMinHeadCtas);
  const auto experts = static_cast<size_t>(dims.num_experts);
  const auto ranks = static_cast<size_t>(dims.num_ranks);
  const auto chunks = static_cast<size_t>(limits.max_ctas) - 1;
  const PlanLayout plan(dims);
  return {.routes = routes,
          .loads = layout.add<int32_t>("head.loads", ranks * experts),
          .source_begin = layout.add<int32_t>("head.source_begin", (ranks + 1) * experts),
          .route_offsets = layout.add<int32_t>("head.route_offsets", ranks * (experts + 1)),
          .plan = layout.add<std::byte>("head.plan", plan.total_bytes),
          .report = layout.add<std::byte>("head.report", limits.report_bytes),
          .work = layout.add<WorkListHeader>("head.work", 1),
          .parts = layout.add<Part>("head.parts", experts),
          .result = layout.add<HeadResult>("head.result", 1),
          .chunk_counts = layout.add_epochs("head.chunk_counts", 2 * chunks * (experts + 1)),
          .rank_counts = layout.add_epochs("head.rank_counts", 2 * 2 * ranks * experts),
          .max_ctas = limits.max_ctas};
}

}  // namespace megaflux
