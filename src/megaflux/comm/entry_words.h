// What ranks tell each other at the entry of a launch, and the verdict that each of them finds from
// all entries alone. Entries are equal on all ranks, so the verdict is too: host and device share
// this code.
//
// Example: rank 2 enters with layer 4, the others with layer 3. Every rank's verdict is {kLayer,
// peer 2, theirs 4, first 3} and its error "ranks disagree: rank 2 entered epoch 17 with layer 4,
// rank 0 with layer 3".
#pragma once

#include <cstdint>
#include <string_view>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"

namespace megaflux {

// Thrown by every rank alike, with the same message, and so leaves the group in step: it stays
// usable.
class AgreedError : public Error {
 public:
  using Error::Error;
};

enum class LaunchOp : uint32_t {
  kHead = 1,
  kForward,
  kBackward,
  kReplay,  // a forward again, from a saved plan
  kDistributeWeights,
  kReduceGradients,
};
std::string_view launch_op_name(LaunchOp op);

struct EntryWords {
  LaunchOp op = LaunchOp::kHead;
  int32_t layer = 0;
  uint64_t plan_hash = 0;  // of the plan; of the residency table for a head, which has no plan yet
  uint64_t config_hash = 0;  // of everything else that must be equal on all ranks
};

// What a peer posts: its words, and a refusal if it cannot take part.
struct alignas(64) EntrySlot {
  EntryWords words;
  uint32_t refusal_code = 0;  // 1 + ErrorCode; 0 = takes part
  char refusal[228] = {};     // zero-terminated; devices leave it empty
};
static_assert(sizeof(EntrySlot) == 256);

enum class EntryFault : uint32_t { kNone, kOp, kLayer, kConfigHash, kPlanHash, kRefused };

struct EntryVerdict {
  EntryFault fault = EntryFault::kNone;
  int32_t peer = -1;              // the lowest rank that differs from rank 0, or that refused
  LaunchOp op = LaunchOp::kHead;  // rank 0's
  uint64_t theirs = 0;            // the peer's value; of a refusal 1 + ErrorCode
  uint64_t first = 0;             // rank 0's value
};

// Every rank compares all entries with rank 0's, so that all come to the same verdict. `slots` [P].
MF_HOST_DEVICE inline EntryVerdict judge_entries(const EntrySlot* slots, int32_t num_ranks) {
  const EntryWords& first = slots[0].words;
  for (int32_t peer = 1; peer < num_ranks; ++peer) {
    const EntryWords& words = slots[peer].words;
    if (words.op != first.op) {
      return {EntryFault::kOp, peer, first.op, static_cast<uint64_t>(words.op),
              static_cast<uint64_t>(first.op)};
    }
    if (words.layer != first.layer) {
      return {EntryFault::kLayer, peer, first.op, static_cast<uint64_t>(words.layer),
              static_cast<uint64_t>(first.layer)};
    }
    if (words.config_hash != first.config_hash) {
      return {EntryFault::kConfigHash, peer, first.op, words.config_hash, first.config_hash};
    }
    if (words.plan_hash != first.plan_hash) {
      return {EntryFault::kPlanHash, peer, first.op, words.plan_hash, first.plan_hash};
    }
  }
  for (int32_t peer = 0; peer < num_ranks; ++peer) {
    if (slots[peer].refusal_code == 0) continue;
    return {EntryFault::kRefused, peer, first.op, slots[peer].refusal_code, 0};
  }
  return {};
}

// The error of a verdict that is not kNone; `refusal` is the refusing rank's text, if it has one.
AgreedError agreed_error(const EntryVerdict& verdict, uint32_t epoch, std::string_view refusal);

}  // namespace megaflux
