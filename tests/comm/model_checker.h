// An exhaustive check of the protocol of comm/entry_exit.h on a small abstract model: every
// interleaving of 2 or 3 ranks (with one or two roles) over a few launches. A state is the program
// counters and the words of every rank's memory; each step of a role is one read or write that a
// peer can see. Explored are all states that any order of steps can reach; checked in each:
//   - no role reads an entry, or pulls data, of another launch than its own;
//   - no wait for a counter ends before every peer has made its add of this launch;
//   - no counter is cleared while a peer may still add to it, or has added to it already for its
//   next use;
//   - some role can move, until all have ended; once the group has aborted, a role that waits in
//   vain ends there.
// A mutation breaks one rule; the checker must then find a violation or a deadlock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megaflux::test {

enum class LaunchKind : uint8_t {
  kWork,     // pulls, counter adds, exit
  kHead,     // entry alone, with a payload, and counts told beside it
  kRefused,  // entry alone: a rank refused, all threw
  kRecover,  // recover() of ranks in processes of their own, one role each, in a launch's place
};

enum class Mutation : uint8_t {
  kNone,
  kNoEntryWait,             // pulls start without the peers' entries
  kNoExitWait,              // memory is overwritten before all peers have pulled
  kPulledBeforePulls,       // pulled is posted before the last pull
  kFlagBeforePayload,       // the entry's epoch is not a release
  kOneEntryBank,            // entries of launch n + 1 overwrite those of n
  kOneCounterBank,          // a launch clears the counters that it uses
  kNoClear,                 // counters are never cleared
  kClearBeforeEntryWait,    // while a peer may be in the launch before
  kClearAfterWork,          // at the end of the launch, when peers may be in the next one
  kRefusedLaunchKeepsBank,  // a refused launch skips the clear
  kUnsignedCompare,         // seen >= expected, which is wrong at the wrap
  kFlagsResetAtLaunch,      // epoch words are zeroed when a launch starts
  kIdleRankSkipsEntry,      // T = 0: "I have nothing to send"
  kIdleRankSkipsPulled,     // T = 0: "I have nothing to pull"
  kExitIgnoresComm,         // pulled is posted while the comm role still pulls
  kCommIgnoresEntry,        // the comm role pulls before the entry has passed
  kEntryIgnoresComm,        // the next entry is posted before the comm role has read this one's
  kRestartWhilePeersRun,    // recover() resets its words before every peer has stopped
  kLaunchWhilePeersReset,   // recover() ends before every peer has reset its words
  kAbortedRankPosts,        // launches behind one that aborted post their entries
  kOneCountsBank,           // counts of head n + 1 overwrite those of n
  kCount,
};
std::string_view mutation_name(Mutation mutation);

struct ModelConfig {
  int num_ranks = 2;
  int num_roles = 1;
  std::vector<LaunchKind> launches;
  int start_epoch = 0;  // epochs are counted modulo kEpochs
  int idle_rank = -1;   // a rank with T = 0: pulls and adds nothing, posts everything
  int late_rank = -1;  // a rank whose deadline passes in the first launch, at any moment: it aborts
                       // the group, and ends that launch and those behind it without a wait
  Mutation mutation = Mutation::kNone;
};
// Small enough to wrap within a run, large enough that a signed difference is unambiguous.
inline constexpr int kEpochs = 16;

struct ModelResult {
  int64_t num_states = 0;
  std::string violation;           // empty = safe and free of deadlock
  std::vector<std::string> trace;  // steps that lead to it
};

ModelResult explore(const ModelConfig& config);

}  // namespace megaflux::test
