// The one wait function of kernels: nothing else in device code waits for another CTA's word. A
// wait ends: with the word reached, with the group's abort, or at its deadline, which aborts the
// group. Nothing hangs.
#pragma once

#include "megaflux/comm/signal_device.cuh"
#include "megaflux/comm/wait.h"

namespace megaflux {

// True once any rank of the group has failed; a load of this rank's own memory.
__device__ __forceinline__ bool is_aborted(const DeviceRank& self) {
  const DeviceContext& group = self.group;
  return load_signal<kPeerScope>(self.own(group.protocol.abort)) != 0;
}

// Records the failure of this rank and sets the abort word of every rank, unless another failure
// was first.
__device__ __forceinline__ void raise_abort(const DeviceRank& self, FailureKind kind,
                                            const Awaited& awaited, uint32_t seen) {
  const DeviceContext& group = self.group;
  const auto role = static_cast<uint32_t>(self.role);
  FailureRecord* const record = self.own(group.protocol.failures) + role;
  // Only one thread of a role tells; the others have failed with it.
  uint32_t none = 0;
  auto* const kind_word = reinterpret_cast<uint32_t*>(&record->kind);
  if (!cuda::atomic_ref<uint32_t, kRankScope>(*kind_word)
           .compare_exchange_strong(none, static_cast<uint32_t>(kind),
                                    cuda::memory_order_relaxed)) {
    return;
  }
  record->rank = self.rank;
  record->role = static_cast<int32_t>(role);
  record->epoch = self.epoch;
  record->tag = awaited.tag;
  record->peer = awaited.peer;
  record->index = awaited.index;
  record->expected = awaited.expected;
  record->seen = seen;
  record->cta = self.cta;
  // Rank 0's word decides who was first. Release: whoever acquires it may read the record.
  const uint32_t value = 1 + static_cast<uint32_t>(self.rank) * kMaxRoles + role;
  none = 0;
  if (!cuda::atomic_ref<uint32_t, kPeerScope>(*group.heap.at(0, group.protocol.abort))
           .compare_exchange_strong(none, value, cuda::memory_order_acq_rel)) {
    // Another rank was first. Its stores may still be on their way here, and this rank must not end
    // its launch as if nothing had happened.
    cuda::atomic_ref<uint32_t, kPeerScope>(*group.heap.at(self.rank, group.protocol.abort))
        .store(none, cuda::memory_order_release);
    return;
  }
#pragma unroll 1  // cold, and a copy stands at every wait
  for (int32_t rank = 1; rank < self.num_ranks(); ++rank) {
    cuda::atomic_ref<uint32_t, kPeerScope>(*group.heap.at(rank, group.protocol.abort))
        .store(value, cuda::memory_order_release);
  }
}

// One thread. True once load(), which reads words of other CTAs and returns what `awaited` expects
// of them, is_reached; false if the group has aborted: by this wait, whose deadline passed, or by
// another failure. The caller then stops its work and comes to end_launch.
template <class Load>
__device__ __forceinline__ bool wait_until(const DeviceRank& self, const Awaited& awaited,
                                           Load&& load) {
  // A look at the clock and at the abort word costs as much as a poll: one in so many.
  constexpr uint32_t kPollsPerLook = 64;
  uint32_t seen = load();
  if (!is_reached(seen, awaited.expected)) {
    // Who enters waits for peers: who waits for what follows leaves the naming of the fault to it.
    const bool is_behind_entry =
        awaited.tag == WaitTag::kEntered || awaited.tag == WaitTag::kRankCounts;
    const uint64_t allowed =
        self.group.deadline_ns << (is_behind_entry ? 1 : 0) >> (awaited.is_impatient ? 1 : 0);
    const uint64_t begin = cuda::ptx::get_sreg_globaltimer();
    for (uint32_t poll = 1;; ++poll) {
      const bool is_look = poll % kPollsPerLook == 0;
      const bool is_late = is_look && cuda::ptx::get_sreg_globaltimer() - begin > allowed;
      // Read after the clock: a CTA that was held up still sees a signal that came in time.
      seen = load();
      if (is_reached(seen, awaited.expected)) break;
      if (is_late) {
        raise_abort(self, FailureKind::kTimeout, awaited, seen);
        return false;
      }
      if (is_look && is_aborted(self)) return false;
    }
  }
  fuzz_delay(self);
  return true;
}

// The wait for one signal word, read with acquire order into `seen`.
template <cuda::thread_scope kScope>
__device__ __forceinline__ bool wait_for(const DeviceRank& self, const Awaited& awaited,
                                         uint32_t& seen) {
  return wait_until(self, awaited, [&] {
    seen = load_signal<kScope>(awaited.word);
    return seen;
  });
}
template <cuda::thread_scope kScope>
__device__ __forceinline__ bool wait_for(const DeviceRank& self, const Awaited& awaited) {
  uint32_t seen = 0;
  return wait_for<kScope>(self, awaited, seen);
}

}  // namespace megaflux
