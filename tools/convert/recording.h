// What a reader found in somebody else's file, and how it becomes a Trace.
//
// Example: counts [2, 3, 8] of 2 steps, 3 layers and 8 experts become loads [2, 3, 1, 8]; with
// layers {4, 5, 6} in the settings the trace names these model layers, else 0, 1, 2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/number_array.h"
#include "megaflux/trace/trace.h"

namespace megaflux::convert {

enum class Format : uint8_t { kAuto, kUltraEp, kSglang, kVllm, kNpy, kCsv };

// What an array without a name holds, by its axes.
enum class Kind : uint8_t {
  kAuto,            // told from the numbers, or an error that asks for it
  kCounts,          // [step, layer, expert], [layer, expert], [expert]
  kCountsBySource,  // [step, layer, source, expert]
  kTopk,            // [token, layer, slot], [sequence, step, layer, slot], [token, slot]
};

struct ImportSettings {
  Format format = Format::kAuto;
  Kind kind = Kind::kAuto;
  int32_t num_experts = 0;           // 0 = as the file says, for ids the largest + 1
  int32_t topk = 0;                  // 0 = as the file says, for counts not stated
  int32_t step_tokens = 0;           // ids without steps: tokens of one; 0 = all are one step
  std::vector<int32_t> layers = {};  // model layers; empty = as the file says, else 0, 1, ...
  std::string model = {};
  std::string origin = {};
  std::string licence = {};
  bool is_time_ordered = false;
};

// `data` is checked only when it becomes a Trace. meta holds what the file says: num_experts (0 =
// it does not), layers (empty = it does not), num_ranks, time_ordered.
struct Recording {
  TraceData data;
  std::vector<std::string> notes;  // for people: what was left out, and why
};

// Counts with the axes of `kind`. Throws kBadInput, opening with `name`, for other axes.
Recording counts_recording(NumberArray counts, Kind kind, const std::string& name);

// Ids [token, layer, slot]. Slots at the end in which no token has an expert are left out. Throws
// kBadInput, opening with `name`: other axes, an id outside [-1, 4095], more than 64 slots.
Recording ids_recording(NumberArray ids, const ImportSettings& settings, const std::string& name);

// Leaves out the steps in which no layer has a row: places of a buffer that nothing was written to.
void drop_empty_steps(Recording& recording);

// Throws kBadInput, opening with `name`, if settings and recording do not go together, and as the
// constructor of Trace does.
Trace finish_recording(Recording recording, const ImportSettings& settings,
                       const std::string& name);

}  // namespace megaflux::convert
