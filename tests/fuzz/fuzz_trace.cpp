// Traces, and with them route files, which are traces of one step.
#include <algorithm>

#include "fuzz/fuzz_harness.h"
#include "megaflux/trace/route_file.h"
#include "megaflux/trace/trace_file.h"

namespace megaflux::fuzz {
namespace {

// Figures of a few cells, on the recorded number of ranks and on another.
void walk(const Trace& trace) {
  const int64_t last_step = trace.num_steps() - 1;
  for (const int64_t step : {int64_t{0}, last_step}) {
    for (const int32_t layer_idx : {0, trace.num_layers() - 1}) {
      for (const int32_t ranks : {trace.meta().num_ranks, 3}) {
        const LoadTable loads = trace.loads(step, layer_idx, ranks);
        require(loads.num_experts() == trace.meta().num_experts, "E of the loads");
        // Drawing ids takes time and memory by the row, which the recorded counts may be full of.
        if (loads.total_rows() > 4096) continue;
        accept_refusal([&] {
          const auto routing = trace.routing(step, layer_idx, ranks);
          require(static_cast<int32_t>(routing.size()) == ranks, "a routing for every rank");
        });
      }
    }
  }
}

}  // namespace

void fuzz_trace(Bytes bytes) {
  accept_refusal([&] {
    const Trace trace = parse_trace(bytes, "fuzz.npz");
    const auto again = encode_trace(trace, TracePacking::kStored);
    const Trace second = parse_trace(again, "again.npz");
    require(second.meta() == trace.meta(), "meta survives writing");
    require(second.data().loads == trace.data().loads &&
                second.data().topk_ids == trace.data().topk_ids &&
                second.data().rank_offsets == trace.data().rank_offsets &&
                second.data().instances == trace.data().instances &&
                second.data().realised_rows == trace.data().realised_rows,
            "the arrays survive writing");
    walk(trace);
    accept_refusal([&] { (void)recorded_counts(trace); });
    TraceData joined = trace.data();
    accept_refusal([&] { append_chunk(joined, second.data(), "again.npz"); });
  });
}

}  // namespace megaflux::fuzz
