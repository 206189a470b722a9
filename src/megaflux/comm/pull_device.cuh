// Pull: bytes from a peer's memory through shared memory into this device's own, by the bulk copy
// engine. One thread drives a pipeline of chunks; the link is busy while it does nothing but wait.
//
// Example: 4 warps a CTA, each with one PullRing<4096, 4>, keep 48 KB a CTA on their way.
//
//   Puller puller(ring);          // one thread, once
//   puller.begin();               // after the wait that made the source readable
//   for (...) puller.push(to, from, bytes);
//   puller.finish();              // all is in place; a post_signal may say so
//
// The source must not change between begin() and finish(): it is read in any order.
#pragma once

#include <cuda/ptx>

#include <cstddef>
#include <cstdint>

namespace megaflux {

// Shared memory of one pulling thread. A chunk is 16 ... kChunkBytes bytes.
template <uint32_t kChunkBytes, uint32_t kChunks>
struct PullRing {
  static_assert(kChunkBytes % 128 == 0 && kChunks >= 2);
  alignas(128) std::byte chunks[kChunks][kChunkBytes];
  std::byte* target[kChunks];
  uint32_t bytes[kChunks];
  uint64_t full[kChunks];  // mbarriers: the chunk has arrived
};

template <uint32_t kChunkBytes, uint32_t kChunks>
class Puller {
 public:
  using Ring = PullRing<kChunkBytes, kChunks>;

  // Where all lanes of a warp hold a puller, the one that pulls makes the barriers: a barrier is
  // not to be initialised over one that is valid.
  __device__ __forceinline__ explicit Puller(Ring& ring, bool makes_barriers = true) : ring_(ring) {
    if (!makes_barriers) return;
    for (uint32_t i = 0; i < kChunks; ++i) cuda::ptx::mbarrier_init(&ring_.full[i], 1);
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }

  // The copy engine reads after what this thread has acquired.
  __device__ __forceinline__ void begin() { cuda::ptx::fence_proxy_async(); }

  // Copies `bytes`, a multiple of 16 up to kChunkBytes, both ends 16-byte aligned.
  __device__ __forceinline__ void push(std::byte* to, const std::byte* from, uint32_t bytes) {
    if (num_pushed_ - num_landed_ == kInFlight) land();
    // The store that left this place kChunks pushes ago has read it by now, or is waited for: of
    // the stores since, one may still be reading.
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<kChunks - kInFlight>());
    const uint32_t place = num_pushed_ % kChunks;
    ring_.target[place] = to;
    ring_.bytes[place] = bytes;
    cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                         cuda::ptx::space_shared, &ring_.full[place], bytes);
    cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, ring_.chunks[place],
                             from, bytes, &ring_.full[place]);
    ++num_pushed_;
  }

  // Ends when all bytes are in place, for every later read of this thread and of whoever acquires
  // what it posts.
  __device__ __forceinline__ void finish() { settle(num_pushed_); }

  // The same for the first `count` chunks, while later ones may be on their way.
  __device__ __forceinline__ void settle(uint32_t count) {
#pragma unroll 1
    while (static_cast<int32_t>(num_landed_ - count) < 0) land();
    cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>());
    cuda::ptx::fence_proxy_async();
  }
  // Chunks pushed, and those that have arrived here and gone on to their targets; both wrap.
  __device__ __forceinline__ uint32_t num_pushed() const {
    return num_pushed_;
  }
  __device__ __forceinline__ uint32_t num_landed() const {
    return num_landed_;
  }

 private:
  // Loads on their way. The rest of the ring is being stored.
  static constexpr uint32_t kInFlight = kChunks - 1;

  // The oldest chunk: arrived, then off to its target.
  __device__ __forceinline__ void land() {
    const uint32_t place = num_landed_ % kChunks;
    const uint32_t parity = num_landed_ / kChunks % 2;
    // No deadline: the copy engine answers or the device faults.
    while (!cuda::ptx::mbarrier_try_wait_parity(&ring_.full[place], parity)) {
    }
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, ring_.target[place],
                             ring_.chunks[place], ring_.bytes[place]);
    cuda::ptx::cp_async_bulk_commit_group();
    ++num_landed_;
  }

  Ring& ring_;
  uint32_t num_pushed_ = 0;
  uint32_t num_landed_ = 0;
};

}  // namespace megaflux
