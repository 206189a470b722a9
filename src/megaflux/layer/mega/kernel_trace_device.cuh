// Kernel trace: when a CTA's roles did what, as spans in device memory. Compiled in where
// MF_KERNEL_TRACE is defined; elsewhere nothing of it is left. bench/gpu/forward_trace writes it as
// a file for a viewer of Chrome traces.
//
// Each lane of the trace (a role of a CTA) has one writer and a fixed number of records; a span
// that finds no room is dropped.
#pragma once

#include <cuda/ptx>

#include <cstdint>

namespace megaflux {

enum class TraceLane : int32_t { kProducer, kStorer, kComm, kMath0, kMath1 };
inline constexpr int32_t kTraceLanes = 5;  // a CTA

enum class TraceKind : int32_t {
  kNone,      // no record
  kClock,     // begin = clock64, end = globaltimer in ns: first and last of a lane
  kAwait,     // producer: inputs of a task
  kLoad,      // producer: all stages of a task
  kStore,     // storer: output of a task
  kBring,     // comm: rows of a piece; index = row tile
  kWeights,   // comm: a piece of a replica's weights; index = 2 slot + (W2 ? 1 : 0)
  kSum,       // comm and math: y of a token, the wait for its results included; index = token
  kMultiply,  // math: products of a task
  kFinish,    // math: what follows them
};

// 24 bytes. Of a task, index = 2 (row tile * 1024 + column tile) + (FC2 ? 1 : 0).
struct TraceRecord {
  TraceKind kind = TraceKind::kNone;
  int32_t index = 0;
  int64_t begin = 0;  // clock64 of the SM
  int64_t end = 0;
};

struct TraceBuffer {
  TraceRecord* records = nullptr;  // [CTAs, kTraceLanes, capacity], zeroed before a launch; or null
  int32_t capacity = 0;
};

namespace mega {

#ifdef MF_KERNEL_TRACE

// Two registers: it stands beside roles that have few left.
class Tracer {
 public:
  // One writing thread a lane; the others pass is_writer = false.
  __device__ __forceinline__ Tracer(const TraceBuffer& buffer, TraceLane lane, bool is_writer)
      : buffer_(buffer), lane_(lane) {
    next_ = is_writer && buffer.records != nullptr ? 0 : buffer.capacity;
    write_clock(buffer.capacity - 1);  // the last place is for the clock at the end
  }
  __device__ __forceinline__ ~Tracer() { write_clock(buffer_.capacity); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  __device__ __forceinline__ void begin() { begin_ = static_cast<uint32_t>(clock64()); }
  // Spans of up to 2^32 clocks, two seconds.
  __device__ __forceinline__ void end(TraceKind kind, int32_t index) {
    const int64_t now = clock64();
    const uint32_t length = static_cast<uint32_t>(now) - begin_;
    write({kind, index, now - length, now}, buffer_.capacity - 1);
  }

 private:
  __device__ __forceinline__ void write_clock(int32_t room) {
    const auto now = static_cast<int64_t>(cuda::ptx::get_sreg_globaltimer());
    write({TraceKind::kClock, 0, clock64(), now}, room);
  }
  __device__ __forceinline__ void write(const TraceRecord& record, int32_t room) {
    if (next_ >= room) return;
    const int64_t cta = int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
    const int64_t lane = cta * kTraceLanes + static_cast<int32_t>(lane_);
    buffer_.records[lane * buffer_.capacity + next_++] = record;
  }

  const TraceBuffer& buffer_;  // of the kernel's argument
  const TraceLane lane_;
  int32_t next_ = 0;
  uint32_t begin_ = 0;
};

#else

class Tracer {
 public:
  __device__ __forceinline__ Tracer(const TraceBuffer&, TraceLane, bool) {}
  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ void end(TraceKind, int32_t) {}
};

#endif

}  // namespace mega
}  // namespace megaflux
