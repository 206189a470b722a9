// What is destroyed when CUDA refuses every call must not bring the process down: after a kernel
// that faulted, whose error sticks to the process, and after CUDA itself has ended with the
// process.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/worker_process_cuda.h"
#include "gpu/gpu_test.cuh"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/comm/nccl_group_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"

namespace megaflux {
namespace {

__global__ void fault_kernel() {
  __trap();
}

// In a process of its own.
TEST(StickyErrorWorker, DISABLED_DestroysEverything) {
  LocalGroup local({.device_of = {0, 0}}, Layout());
  std::optional<NcclGroup> nccl;
  if (!test::variable("MF_TEST_HAS_NCCL").empty()) {
    const std::string path = test::variable("MF_TEST_NCCL");
    nccl.emplace(NcclConfig{.unique_id = NcclLibrary(path).make_unique_id(), .library_path = path},
                 Layout());
  }
  auto memory = allocate_shared(0, 1 << 20);
  const auto mapped = map_fd(0, export_fd(memory.get()), shared_memory_bytes(0, 1 << 20));
  memory.reset();
  fault_kernel<<<1, 1>>>();
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess) << "it sticks";
  EXPECT_THROW(local.synchronize(), Error);
}

struct Kept {
  LocalGroup group{{.device_of = {0, 0}}, Layout()};
  std::shared_ptr<std::byte> memory = allocate_shared(0, 1 << 20);
};
// Destroyed behind main, when CUDA has shut down.
std::unique_ptr<Kept> kept_to_the_end;

// In a process of its own.
TEST(KeepingWorker, DISABLED_KeepsAGroupToTheEnd) {
  kept_to_the_end = std::make_unique<Kept>();
}

TEST(StickyError, NothingThrowsAfterCudaHasEnded) {
  EXPECT_EQ(test::status_of(test::start_worker("KeepingWorker.*", {})), 0);
}

TEST(StickyError, NothingThrowsWhenItIsDestroyed) {
  if (gpu::size() == gpu::Size::kSanitize) {
    GTEST_SKIP() << "the fault is what the sanitizer looks for";
  }
  std::vector<std::string> variables;
  try {
    NcclLibrary(test::variable("MF_TEST_NCCL"));
    variables.emplace_back("MF_TEST_HAS_NCCL=1");
  } catch (const Error&) {
    // Then without a group of NCCL's.
  }
  EXPECT_EQ(test::status_of(test::start_worker("StickyErrorWorker.*", variables)), 0);
}

}  // namespace
}  // namespace megaflux
