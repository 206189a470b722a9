#include "megaflux/layer/cpu/report.h"

#include <time.h>

namespace megaflux {
namespace {

int64_t read_clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void RankReport::clear(int32_t num_ranks) {
  for (auto& kind : bytes) kind.assign(num_ranks, 0);
  rows = rows_from_slots = recomputed_z_rows = 0;
  tiles = rounds = 0;
  compute_cpu_ns = comm_cpu_ns = wall_ns = 0;
}

int64_t thread_cpu_ns() {
  return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
int64_t wall_ns() {
  return read_clock_ns(CLOCK_MONOTONIC);
}

}  // namespace megaflux
