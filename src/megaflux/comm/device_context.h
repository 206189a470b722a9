// DeviceContext: what a kernel is told of its group, as a plain kernel argument. One launch serves
// all ranks of a device; entry_exit_device.cuh turns it into the rank of each CTA.
//
// Example, P = 8 on two devices, ranks 4 ... 7 on the second: there num_local is 4, and a grid of
// 33 x 4 CTAs gives rank 4 the first row, rank 5 the second, and so on.
//
// A launch takes its epoch from device memory and moves it on when it ends, so that a captured
// launch is right on every replay.
#pragma once

#include <cstdint>

#include "megaflux/comm/entry_words.h"
#include "megaflux/comm/rank_context.h"
#include "megaflux/moe/limits.h"

namespace megaflux {

inline constexpr int32_t kFirstBases = 8;
// Ranks of one device that one launch can serve: two CTAs each on 132 SMs.
inline constexpr int32_t kMaxLocalRanks = 66;
inline constexpr int32_t kMaxDeviceCounters = 16;  // counter fields of a layout, ours included

// What every group of devices is made with.
struct DeviceGroupConfig {
  int32_t num_ranks = 1;      // P, 1 ... 128
  int32_t payload_words = 0;  // words an entry can carry; a head needs none
  uint32_t start_epoch = 0;   // tests start near the wrap
  WaitConfig waits = {};      // of it, the deadline and its scale count on devices
};
// Returns it. Throws kBadInput naming the field, the value and the limit.
const DeviceGroupConfig& checked(const DeviceGroupConfig& config);

// One rank of a device, in that device's memory, read by each of its CTAs in one load.
struct alignas(16) LocalRank {
  std::byte* base = nullptr;  // of the rank's own heap
  int16_t rank = 0;
  uint16_t is_silent = 0;  // 1: a launch of its own has aborted; it enters nothing until recover()
  uint32_t launched = 0;   // epoch of the last launch that has ended
};
static_assert(sizeof(LocalRank) == 16);

// The flag of a device's entry, written and read in one piece: who sees the epoch knows without
// another look at memory whether the peer takes part with the same words.
struct alignas(16) EntryFlag {
  uint32_t epoch = 0;
  uint32_t refusal_code = 0;
  uint64_t digest = 0;  // of the EntryWords
};
static_assert(sizeof(EntryFlag) == 16);

// Words of the device side in every rank's heap, beside ProtocolFields.
struct LaunchFields {
  Field<EntryFlag> flags;   // [2, P] in the place of entry_epochs
  CounterField ctas_done;   // [1] CTAs of this rank that have ended their part of the launch
  Field<uint32_t> outcome;  // [1] EntryOutcome of the launch, for the CTAs that did not enter
};
LaunchFields add_launch_fields(Layout& layout, int32_t num_ranks);

// How a launch failed on one rank, in pinned host memory: written by the rank's last CTA, read by
// the host at the next call. The records are whole once their word is not 0.
struct alignas(64) DeviceStatus {
  uint32_t failed = 0;     // as the abort word: 1 + rank * kMaxRoles + role of the first failure
  uint32_t disagreed = 0;  // 1: a launch ended with the verdict below; the host takes it back to 0
  uint32_t epoch = 0;      // of that launch
  EntryVerdict verdict;
  FailureRecord failure;
};

struct DeviceContext {
  HeapView heap;                        // the table lies in this device's memory
  std::byte* first_bases[kFirstBases];  // its start by value: no trip to memory in small groups
  LocalRank* local = nullptr;           // [num_local], device memory
  DeviceStatus* status = nullptr;       // [num_local], pinned host memory
  int32_t num_local = 0;                // ranks on this device
  int32_t num_counters = 0;
  CounterField counters[kMaxDeviceCounters];  // by value: behind an entry wait a trip would count
  ProtocolFields protocol;
  LaunchFields launch;
  uint64_t deadline_ns = 0;  // of every wait; scaled already
  uint64_t fuzz_seed = 0;    // tests: random delays around every signal; 0 = off
};

// How the entry of a launch ended, the same for all CTAs of a rank.
enum class EntryOutcome : uint32_t {
  kEntered,  // go on
  kRefused,  // ranks disagree or one refused, found alike on all of them: no work; end_launch
  kAborted,  // this rank or another has failed: touch no peer's memory; end_launch
};

}  // namespace megaflux
