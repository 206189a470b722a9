// Entry and exit of a launch: the whole protocol between ranks, apart from the signals of the work
// itself.
//
//   entry  every rank posts {epoch, op, layer, plan hash, config hash} and an optional payload to
//          every peer and waits for theirs, before it pulls from, pushes to or overwrites anything
//          a peer can see.
//   exit   a rank posts pulled[epoch] to every peer once it has pulled all it needs from them, and
//          its launch ends only when all peers have posted theirs; then the caller may overwrite
//          or free what they pulled.
//
// Epochs are never reset. Entry words and counters have two banks; launch n uses bank n % 2 and
// clears the counters of the other bank after its entry wait. docs/memory_order.md says why that is
// safe.
//
// A launch on the compute role, and beside it on the comm role if the group has two:
//   enter(ctx, words);                          join_entry(ctx);
//   ... work ...                                ... pulls ...
//   leave(ctx);                                 finish_comm(ctx);
// A head has no exit: nobody pulls in it. Every rank makes the same sequence of launches, also with
// T = 0.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "megaflux/comm/entry_words.h"
#include "megaflux/comm/rank_context.h"

namespace megaflux {

// Adds the protocol's words to a layout. Groups do it; callers have no need to.
ProtocolFields add_protocol_fields(Layout& layout, int32_t num_ranks, int32_t payload_words);

// Compute role. Starts the next launch: ctx.epoch grows by one, and the words and `payload` (at
// most payload_words words; a head's rows per expert) go to every rank, this one included.
void post_entry(RankContext& ctx, const EntryWords& words, std::span<const uint32_t> payload = {});
// As post_entry, for a rank that cannot take part (bad input found before the launch): every rank's
// await_entries then throws AgreedError with this code and message.
void post_refusal(RankContext& ctx, const EntryWords& words, ErrorCode code,
                  std::string_view message);
// Compute role. Waits for all entries of this launch, checks that they agree and clears the
// counters of the other bank. Throws AgreedError: kDisagree "ranks disagree: ..." naming the field,
// two ranks and both values; or the first refusing rank's code and message.
void await_entries(RankContext& ctx);
// post_entry, then await_entries.
void enter(RankContext& ctx, const EntryWords& words, std::span<const uint32_t> payload = {});
// Comm role, once for every launch the compute role enters in the same run: ends when that entry
// has passed, and throws what await_entries threw.
void join_entry(RankContext& ctx);

// What rank `peer` sent with its entry of this launch; valid until this rank's next post_entry.
std::span<const uint32_t> payload_of(const RankContext& ctx, int32_t peer);

// This rank has pulled all that it needs from its peers in this launch. leave() does it; a rank
// that has long work left after its last pull posts it earlier, from the role that pulled.
void post_pulled(const RankContext& ctx);
// Compute role: ends when all peers have posted pulled for this launch.
void await_pulled(const RankContext& ctx);
// The end of a launch: waits for the comm role if there is one, then post_pulled, then
// await_pulled.
void leave(const RankContext& ctx);
// Comm role: its part of this launch is done, pulls included.
void finish_comm(const RankContext& ctx);
// Compute role: ends when finish_comm of this launch was called. Returns at once without a comm
// role.
void await_comm(const RankContext& ctx);

}  // namespace megaflux
