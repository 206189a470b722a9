// Which steps and layers are looked at, and with how many rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/trace/trace.h"

namespace megaflux::simulate {

// True for the trace format, by its name ending in .npz.
bool is_trace_path(const std::string& path);

// Trace files among `paths`; a folder stands for the traces in it, by name. Throws kBadInput naming
// TRACE and the path if there are none.
std::vector<std::string> trace_files(const std::vector<std::string>& paths);

// `wanted` distinct numbers of [0, count), ascending; all of them if there are no more. The same
// for the same seed.
std::vector<int64_t> draw_places(int64_t count, int64_t wanted, uint64_t seed);

// The loads in proportion to what they are, with `rows_per_rank` rows a rank on average; 0 = as
// they are. No expert gets more rows than there are tokens, where `topk` is known (not 0). Recorded
// sources keep their shares of every expert.
LoadTable scaled_loads(const LoadTable& loads, int32_t topk, int64_t rows_per_rank);

}  // namespace megaflux::simulate
