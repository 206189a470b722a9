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
#include <limits>

#include "megaflux/base/math.h"

namespace megaflux {

// A value and an id in one number, so that a plain maximum or minimum finds the extreme value and,
// among equals, the lowest id. Ids are below 2^kIdBits, numbers signed; the key of a value below 0
// is below 0.
template <typename Number, int32_t kIdBits>
struct Keys {
  using Key = Number;
  static constexpr Key kIdSpan = Key{1} << kIdBits;
  // Above every key: the minimum of nothing. The maximum of nothing is 0.
  static constexpr Key kNoKey = std::numeric_limits<Key>::max();

  static MF_HOST_DEVICE constexpr Key max_key(int64_t value, int32_t id) {
    return static_cast<Key>(value) * kIdSpan + (kIdSpan - 1 - static_cast<Key>(id));
  }
  static MF_HOST_DEVICE constexpr int32_t id_of_max(Key key) {
    return static_cast<int32_t>(kIdSpan - 1 - key % kIdSpan);
  }
  static MF_HOST_DEVICE constexpr Key min_key(int64_t value, int32_t id) {
    return static_cast<Key>(value) * kIdSpan + static_cast<Key>(id);
  }
  static MF_HOST_DEVICE constexpr int32_t id_of_min(Key key) {
    return static_cast<int32_t>(key % kIdSpan);
  }
  // The value of either.
  static MF_HOST_DEVICE constexpr Key value_of(Key key) { return key / kIdSpan; }
};

// One host thread.
struct SingleLane : Keys<int64_t, 12> {
  static constexpr int32_t kCount = 1;
  static constexpr bool kIsUniform = false;
  static constexpr int32_t first() { return 0; }
  static constexpr bool is_writer() { return true; }
  // The largest and smallest key of all lanes, and the sum of their numbers.
  static constexpr Key max(Key key) { return key; }
  static constexpr Key min(Key key) { return key; }
  static constexpr int64_t sum(int64_t value) { return value; }
  // Before it, reads of the search's memory are done; after it, writes of any lane are seen by all.
  static constexpr void sync() {}
};

}  // namespace megaflux
