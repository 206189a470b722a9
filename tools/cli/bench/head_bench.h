// `bench head`: time from router ids to plan and row maps on GPUs. Without CUDA it throws
// kUnsupported.
#pragma once

#include <cstdint>
#include <vector>

#include "megaflux/moe/routing.h"
#include "megaflux/plan/planner.h"

namespace megaflux::cli {

struct HeadBenchCase {
  PlanConfig plan;
  int32_t topk = 0;
  std::vector<int32_t> device_of;  // [P] CUDA ordinal of each rank, ascending
  std::vector<Routing> routing;    // [P], T tokens each
  int32_t replays = 31;            // samples
};

struct HeadBenchFigures {
  std::vector<double> head_us;  // [replays] a launch, the slowest device counting
  int32_t ctas_per_rank = 0;    // of the device with most ranks
};

// Times replays of a captured graph of launches and checks what they leave: every rank's plan has
// the bytes of the host's planner. Throws kInternal if not, kUnsupported without CUDA or on devices
// that do not reach each other.
HeadBenchFigures bench_head(const HeadBenchCase& bench_case);

}  // namespace megaflux::cli
