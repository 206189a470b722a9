// Validation of a trace's arrays against its meta; used by Trace alone.
#pragma once

#include <string_view>

#include "megaflux/trace/trace.h"

namespace megaflux {

// Throws kBadInput as Trace's constructor documents.
void check_trace_meta(const TraceMeta& meta, std::string_view name);
void check_trace(const TraceData& data, std::string_view name);

}  // namespace megaflux
