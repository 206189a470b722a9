// BarrierLanes: host threads as lanes of one search, each with its ranks in values of its own, as
// the threads of a warp have them in registers. What one lane does before another has seen the
// write it needs goes wrong here too, and ThreadSanitizer sees it.
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "megaflux/plan/search/lanes.h"

namespace megaflux {

template <int32_t kLanes, int32_t kRanksPerLane, bool kPlain = false>
struct BarrierLanes : Keys<int32_t, 10> {
  static constexpr int32_t kCount = kLanes;
  static constexpr bool kIsUniform = false;
  static constexpr bool kIsPlain = kPlain;
  static constexpr int32_t kMaxRanks = kLanes * kRanksPerLane;

  static int32_t first() { return lane; }
  static bool is_writer() { return lane == 0; }
  static int32_t num_own(int32_t) { return kRanksPerLane; }
  static int32_t rank_of(int32_t i) { return lane + kLanes * i; }
  static bool has_own(uint64_t set, int32_t i) { return (set >> rank_of(i) & 1) != 0; }
  static Key max(Key key) {
    return join(key, [](int64_t a, int64_t b) { return std::max(a, b); });
  }
  static Key min(Key key) {
    return join(key, [](int64_t a, int64_t b) { return std::min(a, b); });
  }
  static int64_t sum(int64_t value) { return join(value, std::plus<int64_t>()); }
  static void sync() { team->barrier.arrive_and_wait(); }

  class RankValues {
   public:
    RankValues() = default;
    explicit RankValues(int32_t* memory) : memory_(memory) {}
    int32_t own(int32_t i) const { return own_[i]; }
    void set_own(int32_t i, int32_t value) { memory_[rank_of(i)] = own_[i] = value; }
    int32_t at(int32_t rank) const { return memory_[rank]; }
    void add(int32_t rank, int32_t amount) {
      for (int32_t i = 0; i < kRanksPerLane; ++i) {
        if (rank_of(i) == rank) set_own(i, own_[i] + amount);
      }
    }
    void add_own(int32_t rank, int32_t amount) {
      for (int32_t i = 0; i < kRanksPerLane; ++i) own_[i] += rank_of(i) == rank ? amount : 0;
    }
    void replace_own(int32_t rank, int32_t value) {
      for (int32_t i = 0; i < kRanksPerLane; ++i) own_[i] = rank_of(i) == rank ? value : own_[i];
    }
    void publish() {
      for (int32_t i = 0; i < kRanksPerLane; ++i) memory_[rank_of(i)] = own_[i];
    }

    int32_t told(int32_t rank) const {
      int32_t value = 0;
      for (int32_t i = 0; i < kRanksPerLane; ++i) {
        if (rank_of(i) == rank) value = own_[i];
      }
      return static_cast<int32_t>(sum(value));
    }

   private:
    int32_t* memory_ = nullptr;
    std::array<int32_t, kRanksPerLane> own_ = {};
  };

  // Runs fn() on every lane.
  static void run(const std::function<void()>& fn) {
    Team together;
    std::vector<std::jthread> threads;
    for (int32_t i = 0; i < kLanes; ++i) {
      threads.emplace_back([&, i] {
        team = &together;
        lane = i;
        fn();
      });
    }
  }

 private:
  struct Team {
    std::barrier<> barrier{kLanes};
    std::array<int64_t, kLanes> offered = {};
  };
  template <typename T, typename Fn>
  static T join(T value, Fn fn) {
    team->offered[lane] = value;
    sync();
    int64_t result = team->offered[0];
    for (int32_t i = 1; i < kLanes; ++i) result = fn(result, team->offered[i]);
    sync();
    return static_cast<T>(result);
  }
  static inline thread_local Team* team = nullptr;
  static inline thread_local int32_t lane = 0;
};

}  // namespace megaflux
