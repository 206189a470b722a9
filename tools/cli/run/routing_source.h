// Token-level routing of `megaflux run`: a step of a trace, or a route family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run/run_options.h"
#include "megaflux/moe/routing.h"

namespace megaflux::cli {

struct RoutingSource {
  std::vector<Routing> routing;  // [P]
  int32_t num_experts = 0;
  int32_t topk = 0;
  std::string origin;  // for people
};

// Index of the layer that a trace is asked for; 0 with --route.
int32_t trace_layer(const RunOptions& options);

// Throws kBadInput naming option, value and limit.
RoutingSource make_routing(const RunOptions& options);

}  // namespace megaflux::cli
