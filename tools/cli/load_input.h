// LOADS of the command line: rows per expert from a CSV file or from a trace.
//
// CSV: one line of E totals (sources unknown, remote figures are null), or P lines of E rows, one
// for each source rank, as trace/load_csv.h reads it. Example, P = 2, E = 3:
//
//   5,0,1
//   4,2,0
#pragma once

#include <cstdint>
#include <string>

#include "megaflux/moe/load_table.h"
#include "megaflux/trace/trace.h"

namespace megaflux::cli {

// Which part of a trace; -1 = not given, which means 0 for a trace and is the only value for CSV.
struct TraceStep {
  int32_t layer = -1;  // index into the trace's layers, not the model's layer number
  int32_t step = -1;
};

struct LoadInput {
  LoadTable loads;
  int32_t topk = 0;    // 0 = unknown
  std::string origin;  // for people: file, layer and step
};

// Throws kBadInput naming file, line or index, value and limit.
LoadInput read_loads(const std::string& path, const TraceStep& where, int32_t num_ranks);

// Reads a trace; errors name `option`. `pick_layer` and `pick_step` check an index against the
// trace.
Trace open_trace(const std::string& option, const std::string& path);
int32_t pick_layer(const Trace& trace, int32_t layer_idx);
int32_t pick_step(const Trace& trace, int32_t step);
// "esft_law.npz, layer index 18 (model layer 19), step 0".
std::string trace_place(const Trace& trace, const std::string& path, int32_t layer_idx,
                        int32_t step);

}  // namespace megaflux::cli
