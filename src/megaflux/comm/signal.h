// Signals: the writing side. A signal is a 32-bit word that one side posts or adds to with release
// order and the other side reads with acquire order (wait.h); everything the writer wrote before it
// is then visible.
#pragma once

#include <atomic>
#include <cstdint>

#include "megaflux/base/math.h"
#include "megaflux/base/rng.h"
#include "megaflux/comm/rank_context.h"

namespace megaflux {

// Random delays before each post and after each wait: a test tool that reorders what the hardware
// rarely does. One instance a thread.
class DelayFuzz {
 public:
  explicit DelayFuzz(uint64_t seed) : rng_(seed) {}
  // Nothing (5 in 8), a yield, or a sleep of up to 100 us.
  void delay();

 private:
  Rng rng_;
};

inline void fuzz_delay(const RankContext& ctx) {
  if (ctx.fuzz != nullptr) [[unlikely]]
    ctx.fuzz->delay();
}

// How far ahead recover() starts: no word of a launch before it ends a wait of one after it.
inline constexpr uint32_t kRecoveryStep = 1u << 16;

// An epoch word that was not written for 2^31 launches would seem to lie ahead. A word that not
// every launch writes is written at least once in so many.
inline constexpr uint32_t kRenewalPeriod = 1u << 16;

// True once `seen` is at or after `expected`, epochs and counters alike, across the wrap at 2^32.
MF_HOST_DEVICE constexpr bool is_reached(uint32_t seen, uint32_t expected) {
  return static_cast<int32_t>(seen - expected) >= 0;
}

// Acquire: what the poster wrote before its signal is visible once the value is seen.
inline uint32_t load_signal(uint32_t* word) {
  return std::atomic_ref<uint32_t>(*word).load(std::memory_order_acquire);
}

// Release: publishes everything this thread wrote, and everything it acquired, before.
inline void post_signal(const RankContext& ctx, uint32_t* word, uint32_t value) {
  fuzz_delay(ctx);
  std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release);
}

// Acquire + release: several writers may add; the one who waits for the sum sees what each wrote
// before its add. Returns the value before. Who completes the count has seen the others' work too.
inline uint32_t add_signal(const RankContext& ctx, uint32_t* word, uint32_t amount) {
  fuzz_delay(ctx);
  return std::atomic_ref<uint32_t>(*word).fetch_add(amount, std::memory_order_acq_rel);
}

}  // namespace megaflux
