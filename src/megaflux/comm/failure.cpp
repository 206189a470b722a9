#include "megaflux/comm/failure.h"

#include <atomic>
#include <sstream>

#include "megaflux/base/check.h"
#include "megaflux/comm/rank_context.h"

namespace megaflux {
namespace {

std::atomic_ref<uint32_t> abort_word(const RankContext& ctx, int32_t rank) {
  return std::atomic_ref<uint32_t>(*ctx.heap.at(rank, ctx.protocol.abort));
}

}  // namespace

std::string_view wait_tag_name(WaitTag tag) {
  switch (tag) {
    case WaitTag::kEntry:
      return "entry";
    case WaitTag::kChunkCounts:
      return "chunk_counts";
    case WaitTag::kRankCounts:
      return "rank_counts";
    case WaitTag::kEntered:
      return "entered";
    case WaitTag::kJoined:
      return "joined";
    case WaitTag::kRoleDone:
      return "role_done";
    case WaitTag::kExitPulled:
      return "pulled";
    case WaitTag::kXFull:
      return "x_full";
    case WaitTag::kW1Ready:
      return "w1_ready";
    case WaitTag::kW2Ready:
      return "w2_ready";
    case WaitTag::kAFull:
      return "a_full";
    case WaitTag::kYCount:
      return "y_count";
    case WaitTag::kGradientReady:
      return "gradient_ready";
    case WaitTag::kRingSlotFree:
      return "ring_slot_free";
  }
  return "unknown";
}

std::string describe(const FailureRecord& failure) {
  std::ostringstream words;
  words << "rank " << failure.rank << (failure.role == 0 ? " (compute" : " (comm");
  if (failure.cta >= 0) words << ", CTA " << failure.cta;
  words << ")";
  if (failure.kind == FailureKind::kException) {
    words << " failed in epoch " << failure.epoch << ": " << failure.text;
    return words.str();
  }
  const bool is_late = failure.kind == FailureKind::kTimeout;
  words << (is_late ? " timed out" : " is out of step") << " in epoch " << failure.epoch
        << ": waiting for " << wait_tag_name(failure.tag);
  if (failure.index >= 0) words << "[" << failure.index << "]";
  if (failure.peer >= 0) words << " of rank " << failure.peer;
  words << ", expected " << failure.expected << ", saw " << failure.seen;
  return words.str();
}

void raise_abort(const RankContext& ctx, const FailureRecord& failure) {
  // Rank 0's word decides who was first; the others repeat it, so that each rank polls its own
  // memory.
  if (abort_word(ctx, 0).load(std::memory_order_acquire) != 0) return;
  const auto role = static_cast<uint32_t>(ctx.role);
  ctx.heap.at(ctx.rank, ctx.protocol.failures)[role] = failure;
  const uint32_t value = 1 + static_cast<uint32_t>(ctx.rank) * kMaxRoles + role;
  uint32_t none = 0;
  // Release: whoever acquires the word may read the record.
  if (!abort_word(ctx, 0).compare_exchange_strong(none, value, std::memory_order_acq_rel)) return;
  for (int32_t rank = 1; rank < ctx.num_ranks; ++rank) {
    abort_word(ctx, rank).store(value, std::memory_order_release);
  }
}

bool is_aborted(const RankContext& ctx) {
  return abort_word(ctx, ctx.rank).load(std::memory_order_acquire) != 0;
}

const FailureRecord& first_failure(const RankContext& ctx) {
  const uint32_t value = abort_word(ctx, 0).load(std::memory_order_acquire);
  MF_INVARIANT(value != 0, "no rank has failed");
  const auto rank = static_cast<int32_t>((value - 1) / kMaxRoles);
  return ctx.heap.at(rank, ctx.protocol.failures)[(value - 1) % kMaxRoles];
}

}  // namespace megaflux
