#include <cuda.h>

#include "megaflux/base/check_cuda.h"
#include "megaflux/base/driver_cuda.h"
#include "megaflux/comm/open_memory_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"

namespace megaflux {
namespace {

void open_pool(const Allocation& allocation, int32_t reader) {
  cudaMemPool_t pool = nullptr;
  MF_DRIVER(cuPointerGetAttribute, &pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
            reinterpret_cast<CUdeviceptr>(allocation.base));
  cudaMemAccessDesc access = {};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = reader;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  cudaMemAccessFlags given = cudaMemAccessFlagsProtNone;
  MF_CUDA(cudaMemPoolGetAccess(&given, pool, &access.location));
  if (given == cudaMemAccessFlagsProtNone) MF_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
}

void open_mapping(const Allocation& allocation, int32_t reader) {
  const auto address = reinterpret_cast<CUdeviceptr>(allocation.base);
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = reader;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  unsigned long long given = 0;
  MF_DRIVER(cuMemGetAccess, &given, &access.location, address);
  if (given == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
    MF_DRIVER(cuMemSetAccess, address, allocation.bytes, &access, 1);
  }
}

void open_allocation(const Allocation& allocation, int32_t reader) {
  const bool is_pool = allocation.kind == MemoryKind::kPool;
  if (allocation.kind == MemoryKind::kMalloc || allocation.device == reader) return;
  const CurrentDevice current(allocation.device);
  try {
    if (is_pool) {
      open_pool(allocation, reader);
    } else {
      open_mapping(allocation, reader);
    }
  } catch (const Error& error) {
    throw_error(ErrorCode::kUnsupported, "memory: ", static_cast<void*>(allocation.base),
                " on device ", allocation.device, ", ",
                is_pool ? "of a pool (cudaMallocAsync)" : "of the virtual memory calls",
                ", cannot be opened to device ", reader, ", which is to read it: ", error.what(),
                "; give that device access, or take cudaMalloc");
  }
}

}  // namespace

void open_memory(const void* memory, size_t bytes, int32_t reader) {
  const auto* const end = static_cast<const std::byte*>(memory) + bytes;
  for (const auto* at = static_cast<const std::byte*>(memory); at < end;) {
    const Allocation allocation = allocation_of(at);
    open_allocation(allocation, reader);
    at = allocation.base + allocation.bytes;
  }
}

}  // namespace megaflux
