// Signals of a kernel: the device side of signal.h, over the same words. Orders and scopes stand at
// the call and are never weakened, for ranks of one device either:
//   kPeerScope  words that another rank writes or reads, whatever device it is on
//   kRankScope  words that only CTAs of this rank touch
// docs/memory_order.md lists the words.
#pragma once

#include <cuda/atomic>
#include <cuda/ptx>

#include "megaflux/base/hash.h"
#include "megaflux/comm/device_context.h"
#include "megaflux/comm/signal.h"

namespace megaflux {

inline constexpr cuda::thread_scope kPeerScope = cuda::thread_scope_system;
inline constexpr cuda::thread_scope kRankScope = cuda::thread_scope_device;

// Who a thread is: its rank, its CTA among the rank's, and the epoch of the launch it is part of.
// begin_launch makes it; a warp of the comm role takes a copy with `role` changed.
struct DeviceRank {
  const DeviceContext& group;  // the kernel argument, which is __grid_constant__
  std::byte* base = nullptr;   // of the rank's own heap
  int32_t local_idx = 0;       // of the rank on its device
  int32_t rank = 0;
  int32_t cta = 0;       // 0 ... num_ctas - 1
  int32_t num_ctas = 1;  // of this rank
  uint32_t epoch = 0;
  bool is_silent = false;  // an earlier launch of the rank has aborted: this one posts no entry
  Role role = Role::kCompute;

  __device__ __forceinline__ int32_t num_ranks() const { return group.heap.num_ranks(); }
  // In the rank's own heap, without a look into the table: after an acquire that is a trip to the
  // L2 cache.
  template <typename T>
  __device__ __forceinline__ T* own(Field<T> field) const {
    return at_base(base, field);
  }
  __device__ __forceinline__ uint32_t* own(CounterField field, uint32_t launch_epoch) const {
    return at_base(base, field, launch_epoch);
  }
};

// Tests: a delay of up to 4 us before one post in four and after one wait in four.
__device__ __forceinline__ void fuzz_delay(const DeviceRank& self) {
  if (self.group.fuzz_seed == 0) return;
  const uint64_t cta = uint64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  const uint64_t place = (cta << 32) + threadIdx.x / 32;
  const uint64_t draw = mix64(self.group.fuzz_seed ^ mix64(place + clock64()));
  if ((draw & 3u) == 0) __nanosleep(static_cast<uint32_t>(draw >> 32) % 4096);
}

// Acquire: what the poster wrote before its signal is visible once the value is seen.
template <cuda::thread_scope kScope>
__device__ __forceinline__ uint32_t load_signal(uint32_t* word) {
  return cuda::atomic_ref<uint32_t, kScope>(*word).load(cuda::memory_order_acquire);
}

// Release: publishes everything this thread wrote, and everything it acquired, before; after a
// barrier, what the other threads at the barrier wrote as well.
template <cuda::thread_scope kScope>
__device__ __forceinline__ void post_signal(const DeviceRank& self, uint32_t* word,
                                            uint32_t value) {
  fuzz_delay(self);
  cuda::atomic_ref<uint32_t, kScope>(*word).store(value, cuda::memory_order_release);
}

// The flag of an entry in one piece, with acquire and with release order. One that is torn would
// pass the digest of one launch off as another's.
__device__ __forceinline__ EntryFlag load_flag(const EntryFlag* flag) {
  uint64_t low = 0, high = 0;
  asm volatile(
      "{ .reg .b128 flag; ld.acquire.sys.global.b128 flag, [%2]; mov.b128 {%0, %1}, flag; }"
      : "=l"(low), "=l"(high)
      : "l"(__cvta_generic_to_global(flag))
      : "memory");
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), high};
}
__device__ __forceinline__ void post_flag(const DeviceRank& self, EntryFlag* flag,
                                          const EntryFlag& value) {
  fuzz_delay(self);
  const uint64_t low = (uint64_t{value.refusal_code} << 32) | value.epoch;
  asm volatile(
      "{ .reg .b128 flag; mov.b128 flag, {%1, %2}; st.release.sys.global.b128 [%0], flag; }" ::"l"(
          __cvta_generic_to_global(flag)),
      "l"(low), "l"(value.digest)
      : "memory");
}

// Acquire + release; returns the value before. Who completes a count has seen the others' work.
template <cuda::thread_scope kScope>
__device__ __forceinline__ uint32_t add_signal(const DeviceRank& self, uint32_t* word,
                                               uint32_t amount) {
  fuzz_delay(self);
  return cuda::atomic_ref<uint32_t, kScope>(*word).fetch_add(amount, cuda::memory_order_acq_rel);
}

// A number that no other caller gets, of a word of this rank; nothing is passed on with it.
__device__ __forceinline__ uint32_t take_ticket(uint32_t* word) {
  return cuda::atomic_ref<uint32_t, kRankScope>(*word).fetch_add(1, cuda::memory_order_relaxed);
}

// Release, without an answer: for counts that a waiter elsewhere completes. Does not wait for the
// link, which add_signal does.
template <cuda::thread_scope kScope>
__device__ __forceinline__ void count_signal(const DeviceRank& self, uint32_t* word,
                                             uint32_t amount) {
  static_assert(kScope == kPeerScope || kScope == kRankScope);
  fuzz_delay(self);
  if constexpr (kScope == kPeerScope) {
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(word)),
                 "r"(amount)
                 : "memory");
  } else {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(word)),
                 "r"(amount)
                 : "memory");
  }
}

}  // namespace megaflux
