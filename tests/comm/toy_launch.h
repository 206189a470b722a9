// A small launch with everything a layer does to its peers: it pulls rows from all of them, adds to
// a counter of each, waits for a sum that depends on the epoch, and overwrites what they pulled
// once it may. Any mistake in entry, exit, banks or memory order shows as a wrong value.
#pragma once

#include <cstdint>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/base/math.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/threads_group.h"
#include "megaflux/comm/wait.h"

namespace megaflux::test {

inline constexpr int32_t kToyRows = 48;

struct ToyFields {
  Field<uint64_t> rows;     // [kToyRows] pulled by every peer
  Field<uint64_t> results;  // [P, kToyRows] slot p is pushed by rank p
  CounterField arrived;     // [1] pushes that have arrived
};

inline ToyFields add_toy_fields(Layout& layout, int32_t num_ranks) {
  return {.rows = layout.add<uint64_t>("toy.rows", kToyRows),
          .results = layout.add<uint64_t>("toy.results", static_cast<size_t>(num_ranks) * kToyRows),
          .arrived = layout.add_counters("toy.arrived", 1)};
}

MF_HOST_DEVICE inline uint64_t toy_row(int32_t rank, uint32_t epoch, int32_t row) {
  return mix64((uint64_t{epoch} << 32) + static_cast<uint64_t>(rank) * kToyRows + row + 1);
}

// Adds this rank makes to each peer's counter: differs by epoch, as a target that depends on the
// plan does.
MF_HOST_DEVICE inline uint32_t toy_adds(uint32_t epoch) {
  return 1 + epoch % 3;
}

// Pulls the rows of all peers and pushes a function of each back to its owner.
inline void toy_move(RankContext& ctx, const ToyFields& fields) {
  for (int32_t step = 0; step < ctx.num_ranks; ++step) {
    const int32_t peer = (ctx.rank + step) % ctx.num_ranks;
    const uint64_t* const rows = ctx.heap.at(peer, fields.rows);
    uint64_t* const results = ctx.heap.at(peer, fields.results) + ctx.rank * kToyRows;
    for (int32_t row = 0; row < kToyRows; ++row) {
      MF_INVARIANT(rows[row] == toy_row(peer, ctx.epoch, row), "rank ", ctx.rank, " pulled row ",
                   row, " of rank ", peer, " after it was overwritten, epoch ", ctx.epoch);
      results[row] = ~rows[row];
    }
    for (uint32_t i = 0; i < toy_adds(ctx.epoch); ++i) {
      add_signal(ctx, ctx.heap.at(peer, fields.arrived, ctx.epoch), 1);
    }
    // As weights are pulled: no add tells their owner of it, `pulled` alone does.
    fuzz_delay(ctx);
    for (int32_t row = 0; row < kToyRows; ++row) {
      MF_INVARIANT(rows[row] == toy_row(peer, ctx.epoch, row), "rank ", ctx.rank, " pulled row ",
                   row, " of rank ", peer, " after its exit, epoch ", ctx.epoch);
    }
  }
}

inline void toy_collect(RankContext& ctx, const ToyFields& fields) {
  wait_for(ctx, {.tag = WaitTag::kYCount,
                 .word = ctx.heap.at(ctx.rank, fields.arrived, ctx.epoch),
                 .expected = toy_adds(ctx.epoch) * ctx.num_ranks});
  for (int32_t peer = 0; peer < ctx.num_ranks; ++peer) {
    for (int32_t row = 0; row < kToyRows; ++row) {
      MF_INVARIANT(ctx.heap.at(ctx.rank, fields.results)[peer * kToyRows + row] ==
                       ~toy_row(ctx.rank, ctx.epoch, row),
                   "rank ", ctx.rank, " read a result of rank ", peer, " too early, epoch ",
                   ctx.epoch);
    }
  }
}

// One launch; call it on every role of the group.
inline void toy_launch(RankContext& ctx, const ToyFields& fields) {
  if (ctx.role == Role::kComm) {
    join_entry(ctx);
    toy_move(ctx, fields);
    finish_comm(ctx);
    return;
  }
  // Nobody reads these rows: the launch before has ended with every peer's pulled.
  for (int32_t row = 0; row < kToyRows; ++row) {
    ctx.heap.at(ctx.rank, fields.rows)[row] = toy_row(ctx.rank, ctx.epoch + 1, row);
  }
  enter(ctx, {.op = LaunchOp::kForward, .layer = static_cast<int32_t>(ctx.epoch & 7u)});
  if (ctx.num_roles == 1) toy_move(ctx, fields);
  toy_collect(ctx, fields);
  leave(ctx);
}

}  // namespace megaflux::test
