#include "fuzz/fuzz_harness.h"
#include "megaflux/trace/trace_meta.h"

namespace megaflux::fuzz {

void fuzz_trace_meta(Bytes bytes) {
  accept_refusal([&] {
    const TraceMeta meta = parse_trace_meta(text_of(bytes), "fuzz");
    require(meta.num_experts >= 1 && !meta.layers.empty(), "limits of meta");
    require(parse_trace_meta(encode_trace_meta(meta), "again") == meta, "meta survives writing");
  });
}

}  // namespace megaflux::fuzz
