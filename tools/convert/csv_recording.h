// Counts as comma-separated text, in either of two forms.
//
// Totals: every line holds one number per expert; with L layers named, L lines are a step.
//
//   900,700,120,100
//   870,720,130,100
//
// Long: a header names the columns, in any order, and cells that no line names are zero. `source`
// may be left out; `rank` says the same, and `rows` or `tokens` the same as `count`.
//
//   step,layer,expert,source,count
//   0,3,17,0,512
#pragma once

#include <string>
#include <string_view>

#include "convert/recording.h"

namespace megaflux::convert {

inline constexpr size_t kMaxCsvRecordingBytes = size_t{1} << 28;

// Throws kBadInput naming file, line, column, value and limit. Memory is at most 1024 cells a line
// of the long form (and 2^20 to begin with).
Recording csv_recording(std::string_view text, const ImportSettings& settings,
                        const std::string& name);

}  // namespace megaflux::convert
