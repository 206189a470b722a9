// What the runs of a `bench forward` share, and what they take of the devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cli/bench/forward_bench.h"
#include "cli/gpu/gpu_memory.h"

namespace megaflux::cli {

// Runs that differ in how their slots are filled alone share a rig, and runs with the same owners
// their weights.
bool share_rig(const ForwardRun& a, const ForwardRun& b);
bool share_weights(const ForwardRun& a, const ForwardRun& b);

// Bytes of the first `num_runs` runs, which are there at the same time: weights once for every
// owner table, a session for every rig. Throws what resolve_config throws for a device of
// `device_sms`.
DeviceNeeds forward_needs(const ForwardBenchCase& bench_case, size_t num_runs, int32_t device_sms);

}  // namespace megaflux::cli
