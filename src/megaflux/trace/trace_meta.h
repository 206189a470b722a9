// The `meta` array of a trace: UTF-8 JSON.
#pragma once

#include <string>
#include <string_view>

#include "megaflux/trace/trace.h"

namespace megaflux {

// Throws kBadInput: no JSON object, another schema, a key missing or of the wrong type, a number
// out of range. Unknown keys are ignored.
TraceMeta parse_trace_meta(std::string_view json, std::string_view file_name);

std::string encode_trace_meta(const TraceMeta& meta);

}  // namespace megaflux
