// `bench forward`: times of one layer's forward on GPUs, several placements of its experts against
// each other. Without CUDA both functions throw kUnsupported.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

#include "cli/bench/forward_pairs.h"
#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/plan.h"
#include "megaflux/moe/routing.h"
#include "megaflux/plan/planner.h"
#include "megaflux/session/replica_transfer.h"

namespace megaflux::cli {

// One side of a comparison.
struct ForwardRun {
  PlanConfig plan;                   // owner_of is filled in
  std::span<const Routing> routing;  // [P], T tokens each
  // In place: slots hold what the plan wants there before anything is timed.
  ReplicaTransfer transfer = ReplicaTransfer::kPipelined;

  bool is_resident() const { return transfer == ReplicaTransfer::kInPlace; }
};

struct ForwardBenchCase {
  LayerShape shape;
  std::vector<int32_t> device_of;  // [P] CUDA ordinal of each rank, ascending
  int32_t num_sms = 0;             // these three as in DeviceSessionConfig
  int64_t pool_rows = 0;
  int32_t lag_waves = 2;
  // Of each run. The median of an odd number is one of them.
  int32_t samples = 5;
  std::vector<ForwardRun> runs;  // at least one
};

struct ForwardRunFigures {
  Plan plan;  // that the head of every launch made
  // Head included, the slowest device counting. The first run takes turns with itself, which says
  // how far equal launches differ.
  PairTimes ms;
};

struct ForwardBenchFigures {
  std::vector<ForwardRunFigures> runs;  // as in the case
  int32_t launches = 0;                 // of which a sample is the mean
};

// Throws kInternal if runs over one routing differ in a bit of y, kUnsupported without CUDA or on
// devices that do not reach each other.
ForwardBenchFigures bench_forward(const ForwardBenchCase& bench_case);

// Runs the first run when it is told to: the other side of a comparison is another process. Says
// "ready", then answers each line of `in` with milliseconds a launch, until there are no more:
//   gemms N M   N launches of the two GEMMs alone, over rows that a whole launch has left in the
//               pool, right behind M that are not timed
//   layer N M   the same of whole launches, each behind a head
// Throws kBadInput at any other line.
void serve_forward(const ForwardBenchCase& bench_case, std::istream& in, std::ostream& out);

}  // namespace megaflux::cli
