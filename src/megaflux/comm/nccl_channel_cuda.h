// NcclChannel: small records between the ranks of a group, one process a GPU, through NCCL. All
// calls are collective, and none outlasts its deadline: the communicator is the channel's own, its
// calls do not block, and what a missing rank leaves behind is broken off.
//
//   const NcclMember member = {.rank = 1, .num_ranks = 2, .device = 1, .deadline = 20s};
//   NcclChannel channel(nccl, id, member);
//   const std::vector<uint32_t> epochs = channel.gather(epoch, "recover()");   // [P]
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "megaflux/comm/nccl_library.h"
#include "megaflux/comm/rank_outcome.h"

namespace megaflux {

// One of the ranks that a communicator joins.
struct NcclMember {
  int32_t rank = 0;
  int32_t num_ranks = 1;
  int32_t device = 0;
  std::chrono::milliseconds deadline{0};  // of each call
};

// The same id on all ranks, made by rank 0 and carried by a communicator of the caller's. Throws
// kTimeout after the deadline. Then a thread and a kernel still wait for the missing rank, and end
// when the caller aborts `comm`; until then a wait for the whole device does not end.
NcclUniqueId carry_id(const NcclLibrary& nccl, NcclComm* comm, const NcclMember& member);

// A stream and device memory for one gather at a time.
class GatherStage {
 public:
  static constexpr size_t kRecordBytes = 512;  // at most, a rank
  // On the current device.
  explicit GatherStage(int32_t num_ranks);
  cudaStream_t stream() const { return stream_.get(); }
  // Enqueues the gather of `bytes` from `mine`; false as NcclLibrary::all_gather.
  bool enqueue(const NcclLibrary& nccl, NcclComm* comm, const void* mine, size_t bytes,
               std::chrono::milliseconds deadline) const;
  // What it brought, [P, bytes]; waits for the stream.
  void fetch(void* all, size_t bytes) const;

 private:
  struct DestroyStream {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  struct FreeDevice {
    void operator()(std::byte* memory) const { cudaFree(memory); }
  };
  int32_t num_ranks_ = 0;
  std::unique_ptr<CUstream_st, DestroyStream> stream_;
  std::unique_ptr<std::byte, FreeDevice> memory_;  // own record, then [P] of all
};

class NcclChannel {
 public:
  // Throws kTimeout if not all ranks have come after the deadline.
  NcclChannel(const NcclLibrary& nccl, const NcclUniqueId& id, const NcclMember& member);
  // Waits for no rank.
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  // Of the calls from now on.
  void set_deadline(std::chrono::milliseconds deadline) { member_.deadline = deadline; }

  // What every rank gave, [P]; also a barrier. Throws kTimeout naming `purpose` if a rank does not
  // come; the channel is broken then, and every later call is refused.
  template <typename T>
  std::vector<T> gather(const T& mine, const char* purpose) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= GatherStage::kRecordBytes);
    std::vector<T> all(member_.num_ranks);
    gather_bytes(&mine, all.data(), sizeof(T), {purpose, member_.deadline});
    return all;
  }
  // The end of a step that all ranks take or none: throws on all of them, alike, if it failed on
  // one. Waits twice as long: a rank may have waited for another in the step.
  void agree(const RankOutcome& mine, const char* purpose) {
    std::vector<RankOutcome> all(member_.num_ranks);
    gather_bytes(&mine, all.data(), sizeof(mine), {purpose, 2 * member_.deadline});
    throw_first_failure(all, purpose);
  }

 private:
  struct Wait {
    const char* purpose = nullptr;
    std::chrono::milliseconds deadline{0};
  };
  void gather_bytes(const void* mine, void* all, size_t bytes, const Wait& wait);
  void break_off() noexcept;

  NcclLibrary nccl_;
  NcclMember member_;
  GatherStage stage_;
  NcclComm* comm_ = nullptr;
};

}  // namespace megaflux
