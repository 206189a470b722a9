// What stops a group of ranks: a wait that ran out, or a rank that died by an exception. The record
// lies in the heap of the rank that failed; the abort word of every rank names that rank, so that
// each waiter ends with an error that tells the *first* failure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace megaflux {

struct RankContext;

// What a wait waits for.
enum class WaitTag : uint32_t {
  kEntry,          // a peer's entry; with it, on the host, its counts of routes
  kChunkCounts,    // counts of routes from another CTA of this rank
  kRankCounts,     // counts of routes from a peer, on a device
  kEntered,        // the entry of this rank, passed by its compute role
  kJoined,         // the comm role of this rank has passed the entry of the launch before
  kRoleDone,       // the other role of this rank at the end of a launch
  kExitPulled,     // a peer has pulled all that it needs from this rank
  kXFull,          // all rows of a tile have arrived
  kW1Ready,        // W1 of a replica slot has arrived
  kW2Ready,        // W2 of a replica slot has arrived
  kAFull,          // the activations of a tile are complete
  kYCount,         // all results of a token group are in place
  kGradientReady,  // a replica's gradient partial is complete
  kRingSlotFree,   // all readers of the tile that used this pool place are done
};
std::string_view wait_tag_name(WaitTag tag);

enum class FailureKind : uint32_t {
  kNone,
  kTimeout,
  kException,
  kOutOfStep,  // a peer's entry is of a later launch: the ranks have not made the same launches
};

struct FailureRecord {
  FailureKind kind = FailureKind::kNone;
  int32_t rank = -1;
  int32_t role = 0;
  uint32_t epoch = 0;
  WaitTag tag = WaitTag::kEntry;
  int32_t peer = -1;   // whose signal was missing; -1 = this rank's own
  int32_t index = -1;  // which tile, slot or token group; -1 = none
  uint32_t expected = 0;
  uint32_t seen = 0;
  int32_t cta = -1;     // on a device, which CTA of the rank; -1 = none
  char text[152] = {};  // what() of an exception, cut to fit
};
static_assert(sizeof(FailureRecord) == 192);

// "rank 2 (comm) timed out in epoch 17: waiting for w1_ready[3] of rank 0, expected 17, saw 16"
std::string describe(const FailureRecord& failure);

// Records the failure of ctx.rank and sets the abort word of every rank, unless another failure was
// first.
void raise_abort(const RankContext& ctx, const FailureRecord& failure);
// True once any rank of the group has failed; a single load of this rank's own word.
bool is_aborted(const RankContext& ctx);
// The failure that was first. is_aborted must be true.
const FailureRecord& first_failure(const RankContext& ctx);

}  // namespace megaflux
