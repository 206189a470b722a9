// RankContext: who a thread is inside a group of ranks, as a value. Every function of comm/, head/
// and layer/ takes it; there are no globals. A rank may run two persistent threads, its roles:
// `compute` enters and leaves launches, `comm` moves rows and weights beside it.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "megaflux/comm/failure.h"
#include "megaflux/comm/symmetric_heap.h"

namespace megaflux {

class DelayFuzz;
struct EntrySlot;

enum class Role : uint8_t { kCompute = 0, kComm = 1 };
inline constexpr int32_t kMaxRoles = 2;

// How long and how hard a wait tries.
struct WaitConfig {
  std::chrono::milliseconds deadline{20'000};
  double deadline_scale = 1.0;               // sanitizers and loaded machines: > 1
  int32_t spins = 200;                       // polls before the first yield
  int32_t yields = 20;                       // yields before the first sleep
  std::chrono::microseconds max_sleep{200};  // sleeps double from 10 us up to this
};

// Throws kBadInput naming the field and its value unless deadline and scale are positive.
void check_waits(const WaitConfig& waits);

// Places of the protocol's own words in every rank's heap (entry_exit.h says who writes them).
struct ProtocolFields {
  Field<uint32_t> entry_epochs;   // [2, P] epoch of the entry that peer p posted here
  Field<EntrySlot> entries;       // [2, P] its words
  Field<uint32_t> payload;        // [2, P, payload_words] what came with it
  Field<uint32_t> pulled;         // [P] epoch up to which peer p has pulled all it needs from here
  Field<uint32_t> entered;        // [1] epoch whose entry the compute role has passed
  Field<uint32_t> joined;         // [1] epoch whose entry the comm role has passed
  Field<uint32_t> comm_done;      // [1] epoch whose work the comm role has finished
  Field<uint32_t> abort;          // [1] 0, or 1 + rank * kMaxRoles + role of the first failure
  Field<FailureRecord> failures;  // [kMaxRoles] what happened on this rank
  int32_t payload_words = 0;
};

struct RankContext {
  int32_t rank = 0;
  int32_t num_ranks = 1;
  Role role = Role::kCompute;
  int32_t num_roles = 1;  // that take part in this run: 1 if the comm role has no part in it
  uint32_t epoch = 0;  // of the launch entered last; compared by signed difference, so it may wrap
  HeapView heap;
  ProtocolFields protocol;
  std::span<const CounterField> counters;  // cleared by entries, bank by bank
  WaitConfig waits;
  DelayFuzz* fuzz = nullptr;  // tests: random delays around every signal; null = off
};

}  // namespace megaflux
