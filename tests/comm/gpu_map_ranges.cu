// Memory of the caller's, of every kind, as the ranks of one process reach it.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "comm/mapped_memory_cuda.h"
#include "comm/toy_rig_cuda.h"
#include "gpu/gpu_test.cuh"
#include "megaflux/base/hash.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"

namespace megaflux::test {
namespace {

constexpr size_t kBytes = size_t{4} << 20;
constexpr size_t kWords = kBytes / sizeof(uint64_t);

// One CTA: words that are not those of the pattern.
__global__ void count_wrong_kernel(const uint64_t* words, uint64_t seed, uint32_t* count) {
  for (size_t i = threadIdx.x; i < kWords; i += blockDim.x) {
    if (words[i] != mix64(seed + i)) atomicAdd(count, 1u);
  }
}

void fill(void* memory, uint64_t seed) {
  std::vector<uint64_t> words(kWords);
  for (size_t i = 0; i < kWords; ++i) words[i] = mix64(seed + i);
  MF_CUDA(cudaMemcpy(memory, words.data(), kBytes, cudaMemcpyDefault));
  MF_CUDA(cudaDeviceSynchronize());
}

// A kernel on `device` reads what fill() has written.
void expect_readable(int32_t device, const std::byte* memory, uint64_t seed) {
  const gpu::DeviceArray<uint32_t> count{std::vector<uint32_t>{0}, device};
  const CurrentDevice current(device);
  count_wrong_kernel<<<1, 256>>>(reinterpret_cast<const uint64_t*>(memory), seed, count.data());
  MF_CUDA(cudaGetLastError());
  EXPECT_EQ(count.download()[0], 0u);
}

// `memory` of rank 0 on device 0, read by the ranks of both devices.
void expect_mapped(void* memory, MemoryKind kind, uint64_t seed) {
  EXPECT_EQ(allocation_of(memory).kind, kind);
  EXPECT_EQ(allocation_of(memory).device, 0);
  fill(memory, seed);
  LocalGroup group({.device_of = {0, 1}}, Layout());
  // The second time all is open already.
  for (int round = 0; round < 2; ++round) {
    const std::vector<MemoryRange> ranges = {{memory, kBytes}, {}};
    const std::vector<std::byte*> places = group.map_ranges(ranges);
    ASSERT_EQ(places.size(), 2u);
    EXPECT_EQ(places[0], memory);
    EXPECT_EQ(places[1], nullptr);
    for (const int32_t device : {0, 1}) expect_readable(device, places[0], seed);
  }
}

TEST(MapRanges, OfCudaMalloc) {
  MF_NEEDS_GPUS(2);
  const gpu::DeviceArray<std::byte> memory(kBytes);
  expect_mapped(memory.data(), MemoryKind::kMalloc, 1);
}

TEST(MapRanges, OfAPool) {
  MF_NEEDS_GPUS(2);
  const PooledMemory memory(0, kBytes);
  expect_mapped(memory.memory(), MemoryKind::kPool, 2);
}

TEST(MapRanges, OfVirtualMemoryInPieces) {
  MF_NEEDS_GPUS(2);
  const MappedMemory memory(0, 2);
  ASSERT_EQ(memory.bytes(), kBytes);
  expect_mapped(memory.memory(), MemoryKind::kVirtual, 3);
}

TEST(MapRanges, OneDeviceOpensNothing) {
  MF_NEEDS_GPUS(1);
  const PooledMemory pooled(0, kBytes);
  const MappedMemory mapped(0, 2);
  LocalGroup group({.device_of = {0, 0}}, Layout());
  const std::vector<MemoryRange> ranges = {{pooled.memory(), kBytes}, {mapped.memory(), kBytes}};
  const std::vector<std::byte*> places = group.map_ranges(ranges);
  EXPECT_EQ(places[0], pooled.memory());
  EXPECT_EQ(places[1], mapped.memory());
}

// What walks over a range relies on it: piece by piece, from wherever one is asked about.
TEST(MapRanges, AnAllocationOfVirtualMemoryIsOnePiece) {
  MF_NEEDS_GPUS(1);
  const MappedMemory mapped(0, 3);
  const size_t piece = mapped.bytes() / 3;
  auto* const first = static_cast<std::byte*>(mapped.memory());
  for (size_t i = 0; i < 3; ++i) {
    for (const size_t offset : {size_t{0}, size_t{100}, piece - 1}) {
      const Allocation allocation = allocation_of(first + i * piece + offset);
      EXPECT_EQ(allocation.base, first + i * piece) << "piece " << i << " at " << offset;
      EXPECT_EQ(allocation.bytes, piece);
      EXPECT_EQ(allocation.kind, MemoryKind::kVirtual);
    }
  }
}

std::pair<ErrorCode, std::string> error_with(const MemoryRange& first, int32_t last_device) {
  LocalGroup group({.device_of = {0, last_device}}, Layout());
  const std::vector<MemoryRange> ranges = {first, {}};
  return error_of([&] { group.map_ranges(ranges); });
}

TEST(MapRanges, HostMemoryIsRefused) {
  MF_NEEDS_GPUS(1);
  std::vector<std::byte> host(64);
  const auto [code, text] = error_with({host.data(), host.size()}, 0);
  EXPECT_EQ(code, ErrorCode::kBadInput);
  EXPECT_NE(text.find("is no device memory"), std::string::npos) << text;
}

TEST(MapRanges, MemoryOfAnotherDeviceIsRefused) {
  MF_NEEDS_GPUS(2);
  const gpu::DeviceArray<std::byte> memory(64, 1);
  const auto [code, text] = error_with({memory.data(), 64}, 1);
  EXPECT_EQ(code, ErrorCode::kBadInput);
  EXPECT_NE(text.find("of rank 0 lies on device 1, the rank on device 0"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace megaflux::test
