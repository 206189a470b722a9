// Entry by one warp, while the other warps of its CTA do something else: the same words and rules
// as post_entry and await_entries of entry_exit_device.cuh, without a payload and without a barrier
// of the CTA.
//
//   EntryOutcome outcome = ...;
//   if (warp == 0) {
//     const uint64_t digest = post_entry_by_warp(self, words);
//     outcome = await_entries_by_warp(self, digest);
//   } else {
//     ... what touches no peer's memory; is_aborted(self) once, since an aborted group enters
//     nothing even if all entries are there ...
//   }
//   if (!__syncthreads_and(warp != 0 || outcome == EntryOutcome::kEntered)) ...
//   if (warp == 0) pass_entry_by_warp(self, outcome);
//
// All functions are called by all lanes of one warp, the same one in a launch. None of them clears
// counters: that is for the rank's CTAs, each its share.
#pragma once

#include "megaflux/comm/entry_exit_device.cuh"

namespace megaflux {

// Posts the words to every rank, this one included, and returns their digest; what the rank's
// earlier launches wrote goes with them. A lane a peer, so that all their stores are on their way
// together. A silent rank posts nothing.
__device__ __forceinline__ uint64_t post_entry_by_warp(const DeviceRank& self,
                                                       const EntryWords& words) {
  const uint64_t digest = device_protocol::digest_of(words);
  const size_t mine = device_protocol::entry_index(self, self.rank);
  const int32_t num_peers = self.is_silent ? 0 : self.num_ranks();
  for (int32_t step = threadIdx.x % device_protocol::kLanes; step < num_peers;
       step += device_protocol::kLanes) {
    const int32_t peer = (self.rank + 1 + step) % self.num_ranks();
    std::byte* const base = device_protocol::base_of(self.group, peer);
    device_protocol::store_words(words, 0, at_base(base, self.group.protocol.entries) + mine);
    post_flag(self, at_base(base, self.group.launch.flags) + mine, {self.epoch, 0, digest});
  }
  __syncwarp();
  return digest;
}

// Waits for all entries of this launch and says, in every lane, whether they agree with `digest`.
__device__ __forceinline__ EntryOutcome await_entries_by_warp(const DeviceRank& self,
                                                              uint64_t digest) {
  const uint32_t lane = threadIdx.x % device_protocol::kLanes;
  bool is_sound = true;
  bool is_agreed = true;
  for (auto peer = static_cast<int32_t>(lane); is_sound && peer < self.num_ranks();
       peer += device_protocol::kLanes) {
    bool agrees = true;
    is_sound = device_protocol::await_entry(self, peer, digest, agrees);
    is_agreed = is_agreed && agrees;
  }
  if (__any_sync(~0u, !is_sound)) return EntryOutcome::kAborted;
  if (__all_sync(~0u, is_agreed)) return EntryOutcome::kEntered;
  __syncwarp();  // votes order no memory, and the first lane reads what all have seen
  if (lane == 0) {
    device_protocol::tell_verdict(
        self, self.own(self.group.protocol.entries) + device_protocol::entry_index(self, 0));
  }
  __syncwarp();
  return EntryOutcome::kRefused;
}

// Lets the rank's other CTAs go on.
__device__ __forceinline__ void pass_entry_by_warp(const DeviceRank& self, EntryOutcome outcome) {
  __syncwarp();
  const bool is_first = threadIdx.x % device_protocol::kLanes == 0;
  if (is_first && self.num_ctas > 1) device_protocol::post_entered(self, outcome);
}

}  // namespace megaflux
