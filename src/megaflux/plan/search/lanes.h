// Lanes: the threads that run one search together. The searches are written once, for any number of
// lanes: every lane walks the same steps with the same decisions, loops over ranks, experts and
// replicas are dealt out lane by lane, and what the lanes found is joined by the functions below.
// A host thread searches alone; on a device a warp does (warp_lanes_device.cuh). Both decide alike,
// since only integers are joined and every tie is broken by an id.
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
  // The largest value of a key. Blocks of a problem are below half of it, so that a value from the
  // upper half can say "the smallest of those that cover" beside "the largest of the others".
  static constexpr Key kMaxValue = kNoKey / kIdSpan;

  static MF_HOST_DEVICE constexpr Key max_key(int64_t value, int32_t id) {
    return static_cast<Key>(value) * kIdSpan + (kIdSpan - 1 - static_cast<Key>(id));
  }
  // Of keys not below 0.
  static MF_HOST_DEVICE constexpr int32_t id_of_max(Key key) {
    return static_cast<int32_t>(kIdSpan - 1 - (key & (kIdSpan - 1)));
  }
  static MF_HOST_DEVICE constexpr Key min_key(int64_t value, int32_t id) {
    return static_cast<Key>(value) * kIdSpan + static_cast<Key>(id);
  }
  static MF_HOST_DEVICE constexpr int32_t id_of_min(Key key) {
    return static_cast<int32_t>(key & (kIdSpan - 1));
  }
  // The value of either.
  static MF_HOST_DEVICE constexpr Key value_of(Key key) { return key >> kIdBits; }

  // Among values > 0 the smallest that reaches `least`, else the largest, as one value to maximise.
  static MF_HOST_DEVICE constexpr Key cover_value(int64_t value, int64_t least) {
    return static_cast<Key>(value >= least ? kMaxValue - value : value);
  }
  static MF_HOST_DEVICE constexpr bool covers(Key value) { return value > kMaxValue / 2; }
};

// One host thread.
struct SingleLane : Keys<int64_t, 12> {
  static constexpr int32_t kCount = 1;
  static constexpr bool kIsUniform = false;
  // Nothing is resident, and replicas may be of any size that pays lambda.
  static constexpr bool kIsPlain = false;
  static constexpr int32_t kMaxRanks = 1024;
  static constexpr int32_t first() { return 0; }
  static constexpr bool is_writer() { return true; }
  // Ranks are dealt out too: the lane's i-th is rank_of(i), for i < num_own(num_ranks). A lane may
  // be dealt ranks that do not exist; their values are 0.
  static constexpr int32_t num_own(int32_t num_ranks) { return num_ranks; }
  static constexpr int32_t rank_of(int32_t i) { return i; }
  // Whether a set of up to 64 ranks has it.
  static constexpr bool has_own(uint64_t set, int32_t i) { return (set >> i & 1) != 0; }
  // The largest and smallest key of all lanes, and the sum of their numbers, which fits a key.
  static constexpr Key max(Key key) { return key; }
  static constexpr Key min(Key key) { return key; }
  static constexpr int64_t sum(int64_t value) { return value; }
  // Before it, reads of the search's memory are done; after it, writes of any lane are seen by all.
  static constexpr void sync() {}

  // One number a rank. A lane has those of its own ranks at hand; those of any rank are in memory.
  class RankValues {
   public:
    RankValues() = default;
    explicit RankValues(int32_t* memory) : memory_(memory) {}
    int32_t own(int32_t i) const { return memory_[i]; }
    void set_own(int32_t i, int32_t value) { memory_[i] = value; }
    // After a sync().
    int32_t at(int32_t rank) const { return memory_[rank]; }
    // The same call on every lane.
    void add(int32_t rank, int32_t amount) { memory_[rank] += amount; }
    // The same, but at() need not know of it before publish(): moves that follow each other ask for
    // own ranks only.
    void add_own(int32_t rank, int32_t amount) { memory_[rank] += amount; }
    void replace_own(int32_t rank, int32_t value) { memory_[rank] = value; }
    void publish() {}
    // Any rank's: its lane tells the others, published or not. The same call on every lane.
    int32_t told(int32_t rank) const { return memory_[rank]; }

   private:
    int32_t* memory_ = nullptr;
  };
};

}  // namespace megaflux
