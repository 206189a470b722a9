#include "megaflux/comm/entry_exit.h"

#include <algorithm>
#include <optional>

#include "megaflux/comm/signal.h"
#include "megaflux/comm/wait.h"

namespace megaflux {
namespace {

// Position of peer p's entry of launch `epoch` in an array of [2, P].
size_t entry_index(const RankContext& ctx, int32_t peer) {
  return static_cast<size_t>(ctx.epoch & 1u) * ctx.num_ranks + peer;
}

const EntrySlot& slot_of(const RankContext& ctx, int32_t peer) {
  return ctx.heap.at(ctx.rank, ctx.protocol.entries)[entry_index(ctx, peer)];
}

// Heads have no exit, so the compute role could run two launches ahead of the comm role, and peers
// would overwrite the entries that the comm role has yet to read.
void await_joined(const RankContext& ctx) {
  if (ctx.num_roles < 2) return;
  wait_for(ctx, {.tag = WaitTag::kJoined,
                 .word = ctx.heap.at(ctx.rank, ctx.protocol.joined),
                 .expected = ctx.epoch});
}

void post_slot(RankContext& ctx, const EntrySlot& slot, std::span<const uint32_t> payload) {
  const auto capacity = static_cast<size_t>(ctx.protocol.payload_words);
  MF_INVARIANT(payload.size() <= capacity, "an entry carries ", payload.size(),
               " words, room is for ", capacity);
  await_joined(ctx);
  ++ctx.epoch;
  const size_t mine = entry_index(ctx, ctx.rank);
  for (int32_t step = 0; step < ctx.num_ranks; ++step) {
    // Each rank starts with its right neighbour, so that they do not queue for the same memory.
    const int32_t peer = (ctx.rank + 1 + step) % ctx.num_ranks;
    ctx.heap.at(peer, ctx.protocol.entries)[mine] = slot;
    std::copy(payload.begin(), payload.end(),
              ctx.heap.at(peer, ctx.protocol.payload) + mine * capacity);
    post_signal(ctx, ctx.heap.at(peer, ctx.protocol.entry_epochs) + mine, ctx.epoch);
  }
}

// What stops this launch on every rank.
std::optional<AgreedError> find_error(const RankContext& ctx) {
  const EntryVerdict verdict = judge_entries(&slot_of(ctx, 0), ctx.num_ranks);
  if (verdict.fault == EntryFault::kNone) return std::nullopt;
  return agreed_error(verdict, ctx.epoch, slot_of(ctx, verdict.peer).refusal);
}

}  // namespace

ProtocolFields add_protocol_fields(Layout& layout, int32_t num_ranks, int32_t payload_words) {
  const auto ranks = static_cast<size_t>(num_ranks);
  return {.entry_epochs = layout.add_epochs("protocol.entry_epochs", 2 * ranks),
          .entries = layout.add<EntrySlot>("protocol.entries", 2 * ranks),
          .payload = layout.add<uint32_t>("protocol.payload", 2 * ranks * payload_words),
          .pulled = layout.add_epochs("protocol.pulled", ranks),
          .entered = layout.add_epochs("protocol.entered", 1),
          .joined = layout.add_epochs("protocol.joined", 1),
          .comm_done = layout.add_epochs("protocol.comm_done", 1),
          .abort = layout.add<uint32_t>("protocol.abort", 1),
          .failures = layout.add<FailureRecord>("protocol.failures", kMaxRoles),
          .payload_words = payload_words};
}

void post_entry(RankContext& ctx, const EntryWords& words, std::span<const uint32_t> payload) {
  EntrySlot slot;
  slot.words = words;
  post_slot(ctx, slot, payload);
}

void post_refusal(RankContext& ctx, const EntryWords& words, ErrorCode code,
                  std::string_view message) {
  EntrySlot slot;
  slot.words = words;
  slot.refusal_code = 1 + static_cast<uint32_t>(code);
  message.copy(slot.refusal, sizeof(slot.refusal) - 1);
  post_slot(ctx, slot, {});
}

void await_entries(RankContext& ctx) {
  uint32_t* const epochs = ctx.heap.at(ctx.rank, ctx.protocol.entry_epochs);
  for (int32_t peer = 0; peer < ctx.num_ranks; ++peer) {
    const uint32_t seen = wait_for(ctx, {.tag = WaitTag::kEntry,
                                         .word = epochs + entry_index(ctx, peer),
                                         .expected = ctx.epoch,
                                         .peer = peer});
    MF_INVARIANT(seen == ctx.epoch, "rank ", peer, " is at epoch ", seen, ", rank ", ctx.rank,
                 " at ", ctx.epoch);
  }
  // Now every peer has ended the launch before, the last one that used the other bank; and none can
  // start the next one, which will use it again, before this rank posts that entry. Refused
  // launches clear it as well.
  for (const CounterField& field : ctx.counters) {
    std::fill_n(ctx.heap.at(ctx.rank, field, ctx.epoch + 1), field.count, 0u);
  }
  post_signal(ctx, ctx.heap.at(ctx.rank, ctx.protocol.entered), ctx.epoch);
  if (const std::optional<AgreedError> error = find_error(ctx)) throw *error;
}

void enter(RankContext& ctx, const EntryWords& words, std::span<const uint32_t> payload) {
  post_entry(ctx, words, payload);
  await_entries(ctx);
}

void join_entry(RankContext& ctx) {
  ++ctx.epoch;
  wait_for(ctx, {.tag = WaitTag::kEntered,
                 .word = ctx.heap.at(ctx.rank, ctx.protocol.entered),
                 .expected = ctx.epoch});
  const std::optional<AgreedError> error = find_error(ctx);
  post_signal(ctx, ctx.heap.at(ctx.rank, ctx.protocol.joined), ctx.epoch);
  if (error) throw *error;
}

std::span<const uint32_t> payload_of(const RankContext& ctx, int32_t peer) {
  const auto words = static_cast<size_t>(ctx.protocol.payload_words);
  return {ctx.heap.at(ctx.rank, ctx.protocol.payload) + entry_index(ctx, peer) * words, words};
}

void post_pulled(const RankContext& ctx) {
  for (int32_t step = 0; step < ctx.num_ranks; ++step) {
    const int32_t peer = (ctx.rank + 1 + step) % ctx.num_ranks;
    post_signal(ctx, ctx.heap.at(peer, ctx.protocol.pulled) + ctx.rank, ctx.epoch);
  }
}

void await_pulled(const RankContext& ctx) {
  uint32_t* const pulled = ctx.heap.at(ctx.rank, ctx.protocol.pulled);
  for (int32_t peer = 0; peer < ctx.num_ranks; ++peer) {
    wait_for(
        ctx,
        {.tag = WaitTag::kExitPulled, .word = pulled + peer, .expected = ctx.epoch, .peer = peer});
  }
}

void leave(const RankContext& ctx) {
  await_comm(ctx);
  post_pulled(ctx);
  await_pulled(ctx);
}

void finish_comm(const RankContext& ctx) {
  post_signal(ctx, ctx.heap.at(ctx.rank, ctx.protocol.comm_done), ctx.epoch);
}

void await_comm(const RankContext& ctx) {
  if (ctx.num_roles < 2) return;
  wait_for(ctx, {.tag = WaitTag::kRoleDone,
                 .word = ctx.heap.at(ctx.rank, ctx.protocol.comm_done),
                 .expected = ctx.epoch});
}

}  // namespace megaflux
