#include <cuda.h>

#include <utility>

#include "megaflux/base/check_cuda.h"
#include "megaflux/base/driver_cuda.h"
#include "megaflux/base/math.h"
#include "megaflux/comm/shared_memory_cuda.h"

namespace megaflux {
namespace {

CUmemAllocationProp properties_on(int32_t device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

// Gives back its reference at the end; mappings keep the memory.
class AllocationHandle {
 public:
  explicit AllocationHandle(CUmemGenericAllocationHandle handle) : handle_(handle) {}
  AllocationHandle(const AllocationHandle&) = delete;
  AllocationHandle& operator=(const AllocationHandle&) = delete;
  ~AllocationHandle() { MF_DRIVER_QUIETLY(cuMemRelease, handle_); }
  CUmemGenericAllocationHandle get() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_;
};

// The memory of `handle` at an address of its own, open to kernels on `device`.
std::shared_ptr<std::byte> map_handle(int32_t device, const AllocationHandle& handle,
                                      size_t bytes) {
  CUdeviceptr address = 0;
  MF_DRIVER(cuMemAddressReserve, &address, bytes, 0, 0, 0);
  bool is_mapped = false;
  const auto release = [bytes](CUdeviceptr at, bool was_mapped) noexcept {
    if (was_mapped) MF_DRIVER_QUIETLY(cuMemUnmap, at, bytes);
    MF_DRIVER_QUIETLY(cuMemAddressFree, at, bytes);
  };
  try {
    MF_DRIVER(cuMemMap, address, bytes, 0, handle.get(), 0);
    is_mapped = true;
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MF_DRIVER(cuMemSetAccess, address, bytes, &access, 1);
  } catch (...) {
    release(address, is_mapped);
    throw;
  }
  const auto end = [release](std::byte* memory) {
    release(reinterpret_cast<CUdeviceptr>(memory), true);
  };
  return {reinterpret_cast<std::byte*>(address), end};
}

}  // namespace

size_t shared_memory_bytes(int32_t device, size_t bytes) {
  const CUmemAllocationProp properties = properties_on(device);
  size_t granularity = 0;
  MF_DRIVER(cuMemGetAllocationGranularity, &granularity, &properties,
            CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  return round_up(bytes, granularity);
}

std::shared_ptr<std::byte> allocate_shared(int32_t device, size_t bytes) {
  const CurrentDevice current(device);
  MF_CUDA(cudaFree(nullptr));  // the driver's calls want the device's context
  const CUmemAllocationProp properties = properties_on(device);
  const size_t rounded = shared_memory_bytes(device, bytes);
  CUmemGenericAllocationHandle handle = 0;
  MF_DRIVER(cuMemCreate, &handle, rounded, &properties, 0);
  const std::shared_ptr<std::byte> memory = map_handle(device, AllocationHandle(handle), rounded);
  MF_CUDA(cudaMemset(memory.get(), 0, rounded));
  return memory;
}

UniqueFd export_fd(const std::byte* memory) {
  CUmemGenericAllocationHandle handle = 0;
  MF_DRIVER(cuMemRetainAllocationHandle, &handle, const_cast<std::byte*>(memory));
  const AllocationHandle owner(handle);
  int fd = -1;
  MF_DRIVER(cuMemExportToShareableHandle, &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  return UniqueFd(fd);
}

std::shared_ptr<std::byte> map_fd(int32_t device, const UniqueFd& fd, size_t bytes) {
  const CurrentDevice current(device);
  CUmemGenericAllocationHandle handle = 0;
  MF_DRIVER(cuMemImportFromShareableHandle, &handle,
            reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return map_handle(device, AllocationHandle(handle), bytes);
}

std::shared_ptr<std::byte> map_ipc(int32_t device, const cudaIpcMemHandle_t& handle) {
  const CurrentDevice current(device);
  void* memory = nullptr;
  MF_CUDA(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  const auto end = [device](std::byte* mapped) {
    const CurrentDevice owner(device, std::nothrow);
    cudaIpcCloseMemHandle(mapped);
  };
  return {static_cast<std::byte*>(memory), end};
}

Allocation allocation_of(const void* memory) {
  cudaPointerAttributes attributes = {};
  MF_CUDA(cudaPointerGetAttributes(&attributes, memory));
  MF_CHECK(attributes.type == cudaMemoryTypeDevice, "memory: ", memory, " is no device memory");
  const CurrentDevice current(attributes.device);  // of which the driver's calls want the context
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  MF_DRIVER(cuMemGetAddressRange, &base, &bytes, address);
  uint64_t id = 0;
  int has_ipc = 0;
  CUmemoryPool pool = nullptr;
  // Together, since one by one they fail where memory is of another kind.
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                 CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
  void* answers[] = {&id, &has_ipc, &pool};
  MF_DRIVER(cuPointerGetAttributes, 3, asked, answers, address);
  MemoryKind kind = has_ipc != 0 ? MemoryKind::kMalloc : MemoryKind::kVirtual;
  if (pool != nullptr) kind = MemoryKind::kPool;
  return {reinterpret_cast<std::byte*>(base), bytes, id, attributes.device, kind};
}

}  // namespace megaflux
