// How long an entry takes and how fast pulls are, between the ranks of one process.
//   entry_us          one entry after another inside a kernel, with and without a payload
//   bulk_pull_gbps    bytes of a peer through shared memory into own memory, over the kernel's time
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_result_cuda.h"
#include "megaflux/comm/entry_exit_device.cuh"
#include "megaflux/comm/launch_cuda.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/comm/pull_device.cuh"

namespace megaflux::bench {
namespace {

constexpr int32_t kEntryThreads = 1024;

// One CTA a rank; writes the nanoseconds of `rounds` entries to elapsed_ns[rank].
__global__ void __launch_bounds__(kEntryThreads, 1)
    entry_kernel(const __grid_constant__ DeviceContext context, int32_t rounds, int32_t num_words,
                 uint64_t* elapsed_ns) {
  __shared__ uint32_t payload[1024];
  DeviceRank self = begin_launch(context);
  for (int32_t i = threadIdx.x; i < num_words; i += blockDim.x) payload[i] = self.rank + i;
  const EntryWords words = {.op = LaunchOp::kHead};
  EntryOutcome outcome = enter(self, words, payload, num_words);  // all ranks are there
  const uint64_t begin = cuda::ptx::get_sreg_globaltimer();
  for (int32_t round = 0; round < rounds && outcome == EntryOutcome::kEntered; ++round) {
    ++self.epoch;
    outcome = enter(self, words, payload, num_words);
  }
  if (threadIdx.x == 0) elapsed_ns[self.rank] = cuda::ptx::get_sreg_globaltimer() - begin;
  end_launch(self);
}

void measure_entry(const GpuOptions& options, const std::vector<int32_t>& device_of,
                   int32_t num_words, const std::string& case_key) {
  constexpr int32_t kRounds = 1000;
  constexpr int32_t kSamples = 20;
  LocalGroup group({.device_of = device_of, .payload_words = num_words}, Layout());
  uint64_t* elapsed_ns = nullptr;
  MF_CUDA(cudaHostAlloc(&elapsed_ns, device_of.size() * sizeof(uint64_t), cudaHostAllocPortable));
  GpuResult result = {"entry_us", "us", case_key, {}};
  for (int32_t sample = -2; sample < kSamples; ++sample) {
    group.launch([&](const DeviceContext& context, cudaStream_t stream) {
      launch_ranks(entry_kernel, {.num_threads = kEntryThreads}, stream, context, kRounds,
                   num_words, elapsed_ns);
    });
    group.synchronize();
    const uint64_t longest = *std::max_element(elapsed_ns, elapsed_ns + device_of.size());
    if (sample >= 0) result.samples.push_back(static_cast<double>(longest) / kRounds / 1000);
  }
  MF_CUDA(cudaFreeHost(elapsed_ns));
  report(options, result);
}

struct PullParams {
  Field<std::byte> source;      // in every rank's heap
  std::byte* target = nullptr;  // on the launch's device
  int32_t puller = -1;          // the rank that pulls; -1 = all
};

// The ranks that pull read their right neighbour's source, chunk by chunk over all their warps.
template <uint32_t kChunkBytes, uint32_t kChunks>
__global__ void __launch_bounds__(256, 1)
    pull_kernel(const __grid_constant__ DeviceContext context, PullParams params) {
  extern __shared__ __align__(128) std::byte shared[];
  using Ring = PullRing<kChunkBytes, kChunks>;
  const DeviceRank self = begin_launch(context);
  const EntryWords words = {.op = LaunchOp::kForward};
  const EntryOutcome outcome = self.cta == 0 ? enter(self, words) : join_entry(self);
  const bool pulls = params.puller < 0 || params.puller == self.rank;
  if (outcome == EntryOutcome::kEntered && pulls && threadIdx.x % 32 == 0) {
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t num_warps = blockDim.x / 32;
    const std::byte* const source =
        context.heap.at((self.rank + 1) % self.num_ranks(), params.source);
    Puller<kChunkBytes, kChunks> puller(reinterpret_cast<Ring*>(shared)[warp]);
    puller.begin();
    const size_t step = size_t{kChunkBytes} * self.num_ctas * num_warps;
    for (size_t at = kChunkBytes * (size_t{warp} * self.num_ctas + self.cta);
         at < params.source.count; at += step) {
      puller.push(params.target + at, source + at, kChunkBytes);
    }
    puller.finish();
  }
  leave(self);
}

constexpr size_t kSourceBytes = size_t{256} << 20;
constexpr int32_t kPullSamples = 20;

// Two ranks, one a device, their sources full of random words, and a target each.
struct PullRig {
  PullRig()
      : source(layout.add<std::byte>("source", kSourceBytes)),
        group({.device_of = {0, 1}}, layout) {
    std::vector<uint64_t> words(kSourceBytes / sizeof(uint64_t));
    for (int32_t device = 0; device < 2; ++device) {
      const CurrentDevice current(device);
      for (size_t i = 0; i < words.size(); ++i) words[i] = mix64(i * 2 + device + 1);
      MF_CUDA(cudaMemcpy(group.heap().at(device, source), words.data(), kSourceBytes,
                         cudaMemcpyHostToDevice));
      MF_CUDA(cudaMalloc(&target[device], kSourceBytes));
      MF_CUDA(cudaMemset(target[device], 0xcd, kSourceBytes));
      MF_CUDA(cudaEventCreate(&begin[device]));
      MF_CUDA(cudaEventCreate(&end[device]));
      MF_CUDA(cudaDeviceSynchronize());
    }
  }
  ~PullRig() {
    for (int32_t device = 0; device < 2; ++device) {
      cudaFree(target[device]);
      cudaEventDestroy(begin[device]);
      cudaEventDestroy(end[device]);
    }
  }
  // Bytes a target holds that are not its peer's.
  bool is_right(int32_t device) const {
    std::vector<uint64_t> words(kSourceBytes / sizeof(uint64_t));
    const CurrentDevice current(device);
    MF_CUDA(cudaMemcpy(words.data(), target[device], kSourceBytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] != mix64(i * 2 + (1 - device) + 1)) return false;
    }
    return true;
  }

  Layout layout;
  Field<std::byte> source;
  LocalGroup group;
  std::byte* target[2] = {};
  cudaEvent_t begin[2] = {}, end[2] = {};
};

template <uint32_t kChunkBytes, uint32_t kChunks>
void measure_pull(const GpuOptions& options, const std::string& figure, LaunchShape shape,
                  int32_t puller) {
  using Ring = PullRing<kChunkBytes, kChunks>;
  PullRig rig;
  shape.shared_bytes = sizeof(Ring) * (shape.num_threads / 32);
  const std::string direction = puller < 0 ? "both" : "one";
  GpuResult result = {figure, "GB/s", "op=copy,P=2,dir=" + direction + ",ranks=real", {}};
  for (int32_t sample = -3; sample < kPullSamples; ++sample) {
    rig.group.launch([&](const DeviceContext& context, cudaStream_t stream) {
      int device = 0;
      MF_CUDA(cudaGetDevice(&device));
      MF_CUDA(cudaEventRecord(rig.begin[device], stream));
      launch_ranks(pull_kernel<kChunkBytes, kChunks>, shape, stream, context,
                   PullParams{rig.source, rig.target[device], puller});
      MF_CUDA(cudaEventRecord(rig.end[device], stream));
    });
    rig.group.synchronize();
    double slowest_ms = 0;
    for (int32_t device = 0; device < 2; ++device) {
      const CurrentDevice current(device);
      float ms = 0;
      MF_CUDA(cudaEventElapsedTime(&ms, rig.begin[device], rig.end[device]));
      // The rank that only serves waits for the other: its time says nothing more.
      if (puller < 0 || puller == device) slowest_ms = std::max(slowest_ms, double{ms});
    }
    if (sample >= 0) result.samples.push_back(kSourceBytes / slowest_ms / 1e6);
  }
  for (int32_t device = 0; device < 2; ++device) {
    const bool pulls = puller < 0 || puller == device;
    MF_CHECK(!pulls || rig.is_right(device), figure, ": device ", device, " holds other bytes");
  }
  report(options, result);
}

void run(const GpuOptions& options) {
  int count = 0;
  MF_CUDA(cudaGetDeviceCount(&count));
  measure_entry(options, {0, 0}, 0, "op=head,P=2,ranks=virtual");
  if (count < 2) {
    std::printf("one GPU: entry and pulls over the link were not run\n");
    return;
  }
  measure_entry(options, {0, 1}, 0, "op=head,P=2,ranks=real");
  measure_entry(options, {0, 1}, 128, "op=head,E=128,P=2,ranks=real");
  measure_entry(options, {0, 1}, 256, "op=head,E=256,P=2,ranks=real");
  measure_entry(options, {0, 0, 0, 0, 1, 1, 1, 1}, 256, "op=head,E=256,P=8,ranks=virtual");
  for (const int32_t puller : {0, -1}) {
    // A few warps beside the math on every SM, and a few SMs that do nothing else.
    measure_pull<4096, 4>(options, "bulk_pull_gbps", {.ctas_per_rank = 132, .num_threads = 128},
                          puller);
    measure_pull<8192, 3>(options, "bulk_pull_16_ctas_gbps",
                          {.ctas_per_rank = 16, .num_threads = 256}, puller);
  }
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_gpu_benchmark(argc, argv, megaflux::bench::run);
}
