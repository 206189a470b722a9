// PlanView: a plan's bytes where kernels read them, and where its arrays stand. The offsets are
// found once on the host, since they depend on the dimensions only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaflux/moe/plan.h"

namespace megaflux {

struct PlanView {
  const std::byte* bytes = nullptr;  // device or shared memory
  int32_t num_experts = 0;
  int32_t block_rows = 1;  // 1 for planners that count rows, whatever the configuration says
  size_t owner_of = 0;     // byte offsets, as in PlanLayout
  size_t instance_begin = 0;
  size_t instances = 0;
  size_t instances_end = 0;

  static PlanView of(const PlanDims& dims, const std::byte* bytes = nullptr) {
    const PlanLayout layout(dims);
    return {.bytes = bytes,
            .num_experts = dims.num_experts,
            .block_rows = dims.block_rows,
            .owner_of = layout.owner_of,
            .instance_begin = layout.instance_begin,
            .instances = layout.instances,
            .instances_end = layout.slot_expert};
  }
};

}  // namespace megaflux
