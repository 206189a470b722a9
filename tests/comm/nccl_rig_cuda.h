// What the ranks of an NcclGroup are tested with, each a process: the toy launch over their group,
// and the NCCL of a caller.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "comm/nccl_worker_cuda.h"
#include "comm/toy_rig_cuda.h"
#include "megaflux/comm/nccl_group_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"

namespace megaflux::test {

using namespace std::chrono_literals;

struct NcclToy {
  explicit NcclToy(const NcclConfig& config, int32_t ctas_per_rank = 2, size_t shared_bytes = 0)
      : fields(add_toy_fields(layout, config.num_ranks)),
        group(with_payload(config), layout),
        rig(group, fields, ctas_per_rank, shared_bytes) {
    // The rig has poisoned what peers post into; nobody posts before that.
    group.recover();
  }
  void run_sound(int64_t count) {
    const int64_t before = rig.report().num_entered;
    rig.launch_many(count);
    group.synchronize();
    rig.expect_right(before + count);
  }

  static NcclConfig with_payload(NcclConfig config) {
    config.payload_words = kToyPayload;
    return config;
  }

  Layout layout;
  ToyFields fields;
  NcclGroup group;
  ToyRig rig;
};

// What a caller of the library does with the NCCL of the process: a communicator that blocks, and
// sums.
class CallersNccl {
 public:
  CallersNccl(const NcclLibrary& nccl, const NcclUniqueId& id, int32_t rank)
      : library_(dlopen(nccl.path().c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    const auto init = find<int(NcclComm**, int, NcclUniqueId, int)>("ncclCommInitRank");
    EXPECT_EQ(init(&comm_, kRanks, id, rank), 0);
  }
  NcclComm* comm() const { return comm_; }
  // values += the other rank's; fp32.
  void all_reduce(float* values, size_t count, cudaStream_t stream) const {
    constexpr int kFloat32 = 7;
    constexpr int kSum = 0;
    const auto reduce =
        find<int(const void*, void*, size_t, int, int, NcclComm*, cudaStream_t)>("ncclAllReduce");
    EXPECT_EQ(reduce(values, values, count, kFloat32, kSum, comm_, stream), 0);
  }
  void destroy() { EXPECT_EQ(find<int(NcclComm*)>("ncclCommDestroy")(comm_), 0); }
  void abort() { EXPECT_EQ(find<int(NcclComm*)>("ncclCommAbort")(comm_), 0); }

 private:
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
  NcclComm* comm_ = nullptr;
};

}  // namespace megaflux::test
