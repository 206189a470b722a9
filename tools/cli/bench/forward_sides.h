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

// Those of `names`, planned always and first; none = all that the options have. What does not
// differ from planned is left out. Throws kBadInput naming --sides, a name of the above and the
// options that do not have it. `routes` and `balanced` [P], host memory that outlives the sides.
std::vector<ForwardSide> make_sides(const GpuBenchOptions& options, std::span<const Routing> routes,
                                    std::span<const Routing> balanced,
                                    std::span<const std::string> names);

}  // namespace megaflux::cli
