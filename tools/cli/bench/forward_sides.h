// The placements that `bench forward` holds against each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/forward_bench.h"
#include "cli/bench/gpu_bench_options.h"
#include "cli/options.h"

namespace megaflux::cli {

// A run of the case, as people call it.
struct ForwardSide {
  std::string name;
  ForwardRun run;
};

// "planned", "staged", "resident", "fixed", "ungated", "second ideal", "ideal".
const Choices& forward_side_names();

// Throws kBadInput naming --sides and a name that is none of the above, or that the options do not
// have: what does not differ from planned is no side.
void check_sides(const GpuBenchOptions& options, std::span<const std::string> names);

// Those of `names` (check_sides), planned always and first; none = all that the options have.
// `routes` and `balanced` [P], host memory that outlives the sides.
std::vector<ForwardSide> make_sides(const GpuBenchOptions& options, std::span<const Routing> routes,
                                    std::span<const Routing> balanced,
                                    std::span<const std::string> names);

}  // namespace megaflux::cli
