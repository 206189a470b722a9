// Device memory that other processes of the machine reach: ours, handed out as a file descriptor,
// and a peer's, mapped from a descriptor or, where it came from cudaMalloc, from a CUDA IPC handle.
// What a descriptor stands for lives until its owner and all who map it have let go, in any order;
// of IPC memory CUDA wants the mappings to end first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "megaflux/comm/fd_exchange.h"

namespace megaflux {

// Rounds up to what a device hands out in one piece.
size_t shared_memory_bytes(int32_t device, size_t bytes);

// `bytes` of zeroed memory on `device`, rounded up by shared_memory_bytes, open to that device.
std::shared_ptr<std::byte> allocate_shared(int32_t device, size_t bytes);

// A descriptor for the allocation that holds `memory`: one of allocate_shared, or another that was
// made through CUDA's virtual memory calls with descriptors allowed.
UniqueFd export_fd(const std::byte* memory);

// The memory behind a descriptor, `bytes` long, mapped on `device`.
std::shared_ptr<std::byte> map_fd(int32_t device, const UniqueFd& fd, size_t bytes);
// The memory behind the IPC handle of another process, mapped on `device`.
std::shared_ptr<std::byte> map_ipc(int32_t device, const cudaIpcMemHandle_t& handle);

// Where device memory came from, which decides who can be given access to it, and how.
enum class MemoryKind : uint8_t {
  kMalloc,   // cudaMalloc
  kPool,     // cudaMallocAsync, or a pool that the caller made
  kVirtual,  // mapped by the virtual memory calls, as expandable segments of PyTorch are
};

// The allocation that holds an address; of virtual memory, what was mapped in one piece.
struct Allocation {
  std::byte* base = nullptr;
  size_t bytes = 0;
  uint64_t id = 0;  // differs between allocations, also at one address after another
  int32_t device = 0;
  MemoryKind kind = MemoryKind::kMalloc;
};
// Throws kBadInput if `memory` is no device memory.
Allocation allocation_of(const void* memory);

}  // namespace megaflux
