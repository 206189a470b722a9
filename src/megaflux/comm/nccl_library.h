// NcclLibrary: the NCCL of this process, found at run time. Only its host functions are used, whose
// signatures are the same in all of 2.x: no NCCL header is needed to build, and nothing of NCCL's
// enters a kernel. docs/decisions says why.
#pragma once

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
  // Collective: waits for all ranks, in NCCL. For the current device.
  NcclComm* make_comm(const NcclUniqueId& id, int32_t num_ranks, int32_t rank) const;
  void destroy_comm(NcclComm* comm) const;
  // Breaks off what the communicator is doing; nothing else works on it afterwards.
  void abort_comm(NcclComm* comm) const;
  int32_t num_ranks_of(NcclComm* comm) const;
  int32_t rank_of(NcclComm* comm) const;
  // Enqueues: receive[r * bytes ...] = what rank r sent. Device memory.
  void all_gather(const void* send, void* receive, size_t bytes, NcclComm* comm,
                  NcclStream* stream) const;

 private:
  // NCCL's C interface, as far as it is used. Results: 0 = success.
  using Comm = NcclComm*;
  struct Functions {
    int (*ncclGetVersion)(int*);
    const char* (*ncclGetErrorString)(int);
    int (*ncclGetUniqueId)(NcclUniqueId*);
    int (*ncclCommInitRank)(Comm*, int, NcclUniqueId, int);
    int (*ncclCommDestroy)(Comm);
    int (*ncclCommAbort)(Comm);
    int (*ncclCommCount)(Comm, int*);
    int (*ncclCommUserRank)(Comm, int*);
    int (*ncclAllGather)(const void*, void*, size_t, int, Comm, NcclStream*);
  };

  void check(int result, const char* call) const;

  std::string path_;
  int32_t version_ = 0;
  Functions nccl_ = {};
};

}  // namespace megaflux
