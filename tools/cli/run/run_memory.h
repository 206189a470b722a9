// What a run on the CPU takes of the machine's memory, part by part, and whether so much is
// available: known before anything is drawn.
//
// Counted is what is certainly written, so that nothing is refused that would run: rows that the
// plans give out rather than pools, experts with rows rather than all packs. Small things, as the
// program itself and plans, are left out.
//
// Example: 8 ranks with 3,000,000 tokens together, E 64, K 6, H 256, I 192, bf16, balanced: 51.6
// GB, of which 18.8 are row pools, 15.6 results, 13.8 activations and 3.1 tokens. Runs of 0.5
// to 7.9 GB took 1 to 12 % more than this says, one with 128 experts of 64 rows in all 25 %.
#pragma once

#include <cstdint>
#include <string>

#include "cli/run/execution.h"

namespace megaflux::cli {

// Bytes of all ranks at one time of the run.
struct RunNeed {
  int64_t weights = 0;
  int64_t packed_weights = 0;  // as the GEMMs read them
  int64_t replica_slots = 0;   // weights and gradients of replicas
  int64_t tokens = 0;          // x and dY
  int64_t routes = 0;          // lists by expert, and ids and routing weights for the backward
  int64_t row_pools = 0;       // x and dY in dispatch order, with their origins
  int64_t activations = 0;     // Z kept for the backward, and tiles at hand
  int64_t results = 0;         // of each token and k before they are summed, and the sums
  int64_t gradients = 0;       // of the weights
  int64_t reference = 0;       // what the whole reference computes; of a sample it is little

  int64_t total() const {
    return weights + packed_weights + replica_slots + tokens + routes + row_pools + activations +
           results + gradients + reference;
  }
};

// The most that the run holds at one time: the fixed execution, the replicated one beside what the
// first one leaves, or the reference beside what both leave. Throws what resolve_config throws.
RunNeed peak_need(const Workload& workload, const RunOptions& options, const ExecutionTask& fixed,
                  const ExecutionTask& replicated);

// Throws kUnsupported, "ASKER: not run: memory; needs ... (PARTS) and has ... available", if the
// system says what is available and it is less.
void require_available(const std::string& asker, int64_t bytes, const std::string& parts);
void require_available(const std::string& asker, const RunNeed& need);

}  // namespace megaflux::cli
