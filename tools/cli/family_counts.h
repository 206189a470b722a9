// Recorded counts for the real-* route families.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megaflux::cli {

// Every step and layer of one trace, [R, E]: of --trace `path`, or of the trace that comes with
// megaflux for this E if that is empty. `route` is the family's name. Throws kBadInput naming
// option, value and limit.
std::vector<int32_t> family_counts(const std::string& route, int32_t num_experts, std::string path);

}  // namespace megaflux::cli
