// NcclLibrary: the NCCL of this process, found at run time. Only host functions are used, each as
// it has been since the version beside it and is in all of 2.x; no NCCL header is needed to build,
// and nothing of NCCL's enters a kernel. So a range of versions is accepted, not one.
// docs/decisions says why.
//
//   2.0   ncclGetVersion, ncclGetErrorString, ncclGetUniqueId, ncclCommCount, ncclCommUserRank,
//         ncclAllGather
//   2.4   ncclCommAbort, ncclCommGetAsyncError
//   2.14  ncclCommInitRankConfig, with a configuration that says how long it is: of its fields
//   those
//         up to `blocking`
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace megaflux {

// What identifies a new communicator; rank 0 makes it and the launcher carries it to the others.
struct NcclUniqueId {
  char bytes[128] = {};
};

// NCCL's own handle, as the caller may hand one in.
struct NcclComm;
// CUDA's, here without its header.
struct NcclStream;

// "2.28.9" of 22809, as ncclGetVersion counts since 2.9.
std::string nccl_version_text(int32_t version);
// Throws kUnsupported naming what was found, where, and what is needed, unless `version` is one
// that this library was written against: 2.28.0 or later, below 3.0.
void check_nccl_version(int32_t version, const std::string& path);

class NcclLibrary {
 public:
  // The copy that this process has loaded already; else the one at `path`; else, if `path` is
  // empty, what the loader finds. It stays loaded. Throws kUnsupported naming the places tried, a
  // function that is missing, or the version.
  explicit NcclLibrary(const std::string& path = "");

  int32_t version() const { return version_; }
  const std::string& path() const { return path_; }

  NcclUniqueId make_unique_id() const;
  // Collective, for the current device: a communicator whose calls do not block, so that each has a
  // deadline. Throws kTimeout if not all ranks have come after `deadline`.
  NcclComm* make_comm(const NcclUniqueId& id, int32_t num_ranks, int32_t rank,
                      std::chrono::milliseconds deadline) const;
  // Breaks off what the communicator is doing, kernels too, and frees it; waits for no rank.
  void abort_comm(NcclComm* comm) const noexcept;
  int32_t num_ranks_of(NcclComm* comm) const;
  int32_t rank_of(NcclComm* comm) const;
  // Enqueues: receive[r * bytes ...] = what rank r sent. Device memory.
  struct Gather {
    const void* send = nullptr;
    void* receive = nullptr;
    size_t bytes = 0;
  };
  // False if that has not happened after `deadline`: a communicator connects with its peers first.
  // One of the caller's that blocks does so for as long as a peer is missing.
  bool all_gather(const Gather& gather, NcclComm* comm, NcclStream* stream,
                  std::chrono::milliseconds deadline) const;

 private:
  // NCCL's C interface, as far as it is used. Results: 0 = success.
  using Comm = NcclComm*;
  // The fields of ncclConfig_t up to the one that is set; NCCL reads as many as `bytes` says.
  struct Config {
    static constexpr size_t kBytes = 20;
    size_t bytes = kBytes;
    uint32_t magic = 0xcafebeef;
    uint32_t version = 21400;
    int32_t is_blocking = 0;
  };
  struct Functions {
    int (*ncclGetVersion)(int*);
    const char* (*ncclGetErrorString)(int);
    int (*ncclGetUniqueId)(NcclUniqueId*);
    int (*ncclCommInitRankConfig)(Comm*, int, NcclUniqueId, int, Config*);
    int (*ncclCommGetAsyncError)(Comm, int*);
    int (*ncclCommAbort)(Comm);
    int (*ncclCommCount)(Comm, int*);
    int (*ncclCommUserRank)(Comm, int*);
    int (*ncclAllGather)(const void*, void*, size_t, int, Comm, NcclStream*);
  };

  void check(int result, const char* call) const;
  bool await(Comm comm, int result, const char* call, std::chrono::milliseconds deadline) const;

  std::string path_;
  int32_t version_ = 0;
  Functions nccl_ = {};
};

}  // namespace megaflux
