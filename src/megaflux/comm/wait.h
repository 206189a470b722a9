// The one wait function. Nothing else in the library waits for another thread's word.
#pragma once

#include <cstdint>

#include "megaflux/comm/rank_context.h"
#include "megaflux/comm/signal.h"

namespace megaflux {

// What is waited for. Example: {.tag = WaitTag::kW1Ready, .word = ready + slot, .expected =
// ctx.epoch, .index = slot}.
struct Awaited {
  WaitTag tag = WaitTag::kEntry;
  uint32_t* word = nullptr;
  uint32_t expected = 0;  // the wait ends once is_reached(*word, expected)
  int32_t peer = -1;      // rank that posts it; -1 = this rank
  int32_t index = -1;     // which tile, slot or token group; -1 = none
  // Gives up at half the deadline, ahead of those who wait for what would follow.
  bool is_impatient = false;
};

// Returns the value seen, read with acquire order. Spins briefly, then yields, then sleeps: a
// machine of two cores may host dozens of ranks. After ctx.waits.deadline the failure is recorded,
// every rank's abort word is set and Error kTimeout is thrown, whose message names rank, role, tag,
// peer, expected and seen. If another rank fails meanwhile, throws Error kTimeout that names that
// first failure. Never allocates unless it throws.
uint32_t wait_for(const RankContext& ctx, const Awaited& awaited);

}  // namespace megaflux
