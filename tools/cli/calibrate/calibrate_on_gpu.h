// `calibrate` on the GPUs of this process. Without CUDA it throws kUnsupported.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/moe/layer_shape.h"
#include "megaflux/plan/cost_model.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

// The layer that costs are asked for.
struct CalibrationCase {
  LayerShape shape;
  PlanConfig plan;                 // sizes and owners
  int32_t tokens = 0;              // T, of each rank
  int32_t num_sms = 0;             // of a rank; 0 = those of a device, dealt out evenly
  std::vector<int32_t> device_of;  // [P] CUDA ordinal of each rank, ascending
};

// Draws weights and measures; the name is left empty. Throws what calibrate() of the library does,
// kInternal with CUDA's words where memory is short.
MachineModel calibrate_on_gpu(const CalibrationCase& layer);

}  // namespace megaflux::cli
