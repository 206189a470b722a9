// Lanes: the threads that run one search together. The searches are written once, for any number of
// lanes: every lane walks the same steps with the same decisions, loops over ranks, experts and
// replicas are dealt out lane by lane, and what the lanes found is joined by the functions below.
// A host thread searches alone; on a device a warp does (lanes_cuda.h). Both decide alike, since
// only integers are joined and every tie is broken by an id.
//
// Example: `for (int32_t r = lanes.first(); r < num_ranks; r += Lanes::kCount)` visits the lane's
// share of the ranks; `lanes.max(key)` is then the largest key of all ranks, on every lane.
#pragma once

#include <cstdint>

#include "megaflux/base/math.h"

namespace megaflux {

// One host thread.
struct SingleLane {
  static constexpr int32_t kCount = 1;
  static constexpr int32_t first() { return 0; }
  static constexpr bool is_writer() { return true; }
  // The largest and smallest non-negative number of all lanes, and the sum of theirs.
  static constexpr int64_t max(int64_t value) { return value; }
  static constexpr int64_t min(int64_t value) { return value; }
  static constexpr int64_t sum(int64_t value) { return value; }
  // Before it, reads of the search's memory are done; after it, writes of any lane are seen by all.
  static constexpr void sync() {}
};

// A value and an id in one number, so that a plain maximum or minimum finds the extreme value and,
// among equals, the lowest id. Ids of ranks and experts are below 2^12, values in [0, 2^31).
inline constexpr int64_t kIdSpan = 1 << 12;
inline constexpr int64_t kNoKey = INT64_MAX;  // above every key: the minimum of nothing

MF_HOST_DEVICE constexpr int64_t max_key(int64_t value, int32_t id) {
  return value * kIdSpan + (kIdSpan - 1 - id);
}
MF_HOST_DEVICE constexpr int32_t id_of_max(int64_t key) {
  return static_cast<int32_t>(kIdSpan - 1 - key % kIdSpan);
}
MF_HOST_DEVICE constexpr int64_t min_key(int64_t value, int32_t id) {
  return value * kIdSpan + id;
}
MF_HOST_DEVICE constexpr int32_t id_of_min(int64_t key) {
  return static_cast<int32_t>(key % kIdSpan);
}
// The value of either.
MF_HOST_DEVICE constexpr int64_t value_of(int64_t key) {
  return key / kIdSpan;
}

}  // namespace megaflux
