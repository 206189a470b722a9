// The program of one role in the model of model_checker.h: the steps of entry, work and exit, in
// order, with one rule broken if the configuration says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model_checker.h"

namespace megaflux::test {

enum class Op : uint8_t {
  kWriteData,    // data = launch: the caller's new input
  kResetFlags,   // mutation
  kPostPayload,  // to `peer`
  kPostFlag,     // to `peer`
  kWaitEntry,    // of `peer`
  kReadEntries,  // all payloads
  kClear,        // the counter of bank `launch + 1`, or the mutation's
  kPostEntered,
  kWaitEntered,
  kPostJoined,
  kWaitJoined,  // of the launch before
  kPull,        // data of `peer`
  kAdd,         // to the counter of `peer`, awaited
  kWaitCount,
  kPostCommDone,
  kWaitCommDone,
  kPostPulled,    // to `peer`
  kWaitPulled,    // of `peer`
  kAddUnawaited,  // to the counter of `peer`: nobody waits for it in this launch
  kArrive,        // at the next meeting of recover()
  kMeet,          // `peer` has arrived there too
  kRestart,       // every word as if the launch whose place recover() takes had ended
  kAbort,         // the deadline has passed: the abort word of `peer`
  kTellCounts,    // to `peer`, in words that carry the epoch
  kWaitCounts,    // of `peer`: words of this epoch, no other
};

struct Step {
  Op op;
  int launch;  // 1 ... N
  int peer = -1;
};

using Program = std::vector<Step>;

Program make_program(const ModelConfig& config, int rank, int role);
// "rank 1 comm, launch 2: pull, peer 0"
std::string words_of(int rank, int role, const Step& step);

}  // namespace megaflux::test
