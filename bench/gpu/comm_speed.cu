// How long an entry takes and how fast pulls are, between the ranks of one process.
//   entry_us          one entry after another inside a kernel, with and without a payload
//   bulk_pull_gbps    bytes of a peer through shared memory into own memory, over the kernel's
//   time;
//                     each target is poisoned before each pull and looked at after it
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
  Field<std::byte> source;    // in every rank's heap
  std::byte* target[2] = {};  // of each rank, on its device
  int32_t puller = -1;        // the rank that pulls; -1 = all
};

// The ranks that pull read their right neighbour's source, chunk by chunk over all their warps.
template <uint32_t kChunkBytes, uint32_t kChunks>
__global__ void __launch_bounds__(256, 1) pull_kernel(const __grid_constant__ DeviceContext context,
                                                      const __grid_constant__ PullParams params) {
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
      puller.push(params.target[self.rank] + at, source + at, kChunkBytes);
    }
    puller.finish();
  }
  leave(self);
}

constexpr size_t kSourceBytes = size_t{256} << 20;
constexpr int32_t kPullSamples = 20;

constexpr size_t kSourceWords = kSourceBytes / sizeof(uint64_t);

// Word i of what rank `rank` has to give.
__device__ uint64_t source_word(int32_t rank, size_t i) {
  return mix64(i * 2 + rank + 1);
}

__global__ void fill_kernel(uint64_t* words, int32_t rank) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kSourceWords;
       i += gridDim.x * blockDim.x) {
    words[i] = source_word(rank, i);
  }
}

__global__ void check_kernel(const uint64_t* words, int32_t rank, uint32_t* num_wrong) {
  uint32_t sum = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kSourceWords;
       i += gridDim.x * blockDim.x) {
    sum += words[i] != source_word(rank, i) ? 1 : 0;
  }
  if (sum > 0) atomicAdd(num_wrong, sum);
}

// Two ranks, their sources full of random words, and a target each.
class PullRig {
 public:
  explicit PullRig(const std::vector<int32_t>& device_of)
      : source_(layout_.add<std::byte>("source", kSourceBytes)),
        group_({.device_of = device_of}, layout_),
        device_of_(device_of) {
    MF_CUDA(cudaHostAlloc(&num_wrong_, sizeof(uint32_t), cudaHostAllocPortable));
    for (int32_t rank = 0; rank < 2; ++rank) {
      const CurrentDevice current(device_of[rank]);
      fill_kernel<<<1024, 256>>>(words_of(group_.heap().at(rank, source_)), rank);
      MF_CUDA(cudaGetLastError());
      MF_CUDA(cudaMalloc(&target_[rank], kSourceBytes));
      MF_CUDA(cudaEventCreate(&begin_[rank]));
      MF_CUDA(cudaEventCreate(&end_[rank]));
      MF_CUDA(cudaDeviceSynchronize());
    }
  }
  ~PullRig() {
    cudaFreeHost(num_wrong_);
    for (int32_t rank = 0; rank < 2; ++rank) {
      cudaFree(target_[rank]);
      cudaEventDestroy(begin_[rank]);
      cudaEventDestroy(end_[rank]);
    }
  }
  PullRig(const PullRig&) = delete;
  PullRig& operator=(const PullRig&) = delete;

  // Milliseconds of one launch, the slowest rank that pulls counting; launch(context, params,
  // stream) makes it. Throws unless each of them then holds its peer's bytes.
  template <typename Launch>
  double pull(int32_t puller, Launch&& launch) {
    poison();
    const PullParams params = {source_, {target_[0], target_[1]}, puller};
    size_t device_idx = 0;
    group_.launch([&](const DeviceContext& context, cudaStream_t stream) {
      const int32_t rank = group_.ranks_on(device_idx++).front();
      MF_CUDA(cudaEventRecord(begin_[rank], stream));
      launch(context, params, stream);
      MF_CUDA(cudaEventRecord(end_[rank], stream));
    });
    group_.synchronize();
    double slowest_ms = 0;
    for (size_t i = 0; i < group_.num_devices(); ++i) {
      const int32_t rank = group_.ranks_on(i).front();
      const CurrentDevice current(group_.device(i));
      float ms = 0;
      MF_CUDA(cudaEventElapsedTime(&ms, begin_[rank], end_[rank]));
      // The rank that only serves waits for the other: its time says nothing more.
      if (puller < 0 || puller == rank) slowest_ms = std::max(slowest_ms, double{ms});
    }
    for (int32_t rank = 0; rank < 2; ++rank) {
      if (puller < 0 || puller == rank) check(rank);
    }
    return slowest_ms;
  }

 private:
  static uint64_t* words_of(std::byte* bytes) { return reinterpret_cast<uint64_t*>(bytes); }
  // So that a pull which leaves bytes out does not find those of the one before.
  void poison() {
    for (int32_t rank = 0; rank < 2; ++rank) {
      const CurrentDevice current(device_of_[rank]);
      MF_CUDA(cudaMemset(target_[rank], 0xcd, kSourceBytes));
      MF_CUDA(cudaDeviceSynchronize());
    }
  }
  void check(int32_t rank) {
    const CurrentDevice current(device_of_[rank]);
    *num_wrong_ = 0;
    check_kernel<<<1024, 256>>>(words_of(target_[rank]), 1 - rank, num_wrong_);
    MF_CUDA(cudaGetLastError());
    MF_CUDA(cudaDeviceSynchronize());
    MF_CHECK(*num_wrong_ == 0, "rank ", rank, ": ", *num_wrong_, " of ", kSourceWords,
             " words are not its peer's");
  }

  Layout layout_;
  Field<std::byte> source_;
  LocalGroup group_;
  std::vector<int32_t> device_of_;
  std::byte* target_[2] = {};
  cudaEvent_t begin_[2] = {}, end_[2] = {};
  uint32_t* num_wrong_ = nullptr;
};

// What is measured: a figure over its case, on ranks of these devices.
struct PullCase {
  std::string figure;
  std::vector<int32_t> device_of;
  int32_t puller = -1;  // as PullParams

  std::string key() const {
    const std::string direction = puller < 0 ? "both" : "one";
    const std::string ranks = device_of[0] == device_of[1] ? "virtual" : "real";
    return "op=copy,P=2,dir=" + direction + ",ranks=" + ranks;
  }
};

template <uint32_t kChunkBytes, uint32_t kChunks>
void measure_pull(const GpuOptions& options, const PullCase& one, LaunchShape shape) {
  using Ring = PullRing<kChunkBytes, kChunks>;
  PullRig rig(one.device_of);
  shape.shared_bytes = sizeof(Ring) * (shape.num_threads / 32);
  GpuResult result = {one.figure, "GB/s", one.key(), {}};
  for (int32_t sample = -3; sample < kPullSamples; ++sample) {
    const double ms = rig.pull(
        one.puller, [&](const DeviceContext& context, const PullParams& params, cudaStream_t to) {
          launch_ranks(pull_kernel<kChunkBytes, kChunks>, shape, to, context, params);
        });
    if (sample >= 0) result.samples.push_back(kSourceBytes / ms / 1e6);
  }
  report(options, result);
}

// A few warps beside the math on every SM, and a few SMs that do nothing else.
void measure_pulls(const GpuOptions& options, const std::vector<int32_t>& device_of,
                   int32_t puller) {
  measure_pull<4096, 4>(options, {"bulk_pull_gbps", device_of, puller},
                        {.ctas_per_rank = 132, .num_threads = 128});
  measure_pull<8192, 3>(options, {"bulk_pull_16_ctas_gbps", device_of, puller},
                        {.ctas_per_rank = 16, .num_threads = 256});
}

void run(const GpuOptions& options) {
  int count = 0;
  MF_CUDA(cudaGetDeviceCount(&count));
  measure_entry(options, {0, 0}, 0, "op=head,P=2,ranks=virtual");
  if (count < 2) {
    measure_pulls(options, {0, 0}, 0);
    std::printf("one GPU: entry and pulls over the link were not run\n");
    return;
  }
  measure_entry(options, {0, 1}, 0, "op=head,P=2,ranks=real");
  measure_entry(options, {0, 1}, 128, "op=head,E=128,P=2,ranks=real");
  measure_entry(options, {0, 1}, 256, "op=head,E=256,P=2,ranks=real");
  measure_entry(options, {0, 0, 0, 0, 1, 1, 1, 1}, 256, "op=head,E=256,P=8,ranks=virtual");
  for (const int32_t puller : {0, -1}) measure_pulls(options, {0, 1}, puller);
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_gpu_benchmark(argc, argv, megaflux::bench::run);
}
