// A layer on one GPU with random weights and tokens, and balanced ids of a fixed pattern: full
// blocks if T K / E is a multiple of 128. What the programs that time and trace a forward run.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "layer_mega/headed_layer.cuh"
#include "megaflux/base/rng.h"

namespace megaflux::bench {

// bf16 in [-scale, scale).
inline __global__ void random_values_kernel(Bf16* values, int64_t count, float scale,
                                            uint64_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    Rng rng(seed + static_cast<uint64_t>(i));
    values[i] = Bf16(rng.symmetric(scale));
  }
}

// Memory of the process, as all that a benchmark allocates.
template <typename T>
T* allocate(size_t count) {
  void* memory = nullptr;
  MF_CUDA(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

inline Bf16* random_values(int64_t count, float scale, uint64_t seed) {
  Bf16* const values = allocate<Bf16>(static_cast<size_t>(count));
  random_values_kernel<<<1024, 256>>>(values, count, scale, seed << 40);
  MF_CUDA(cudaGetLastError());
  MF_CUDA(cudaDeviceSynchronize());
  return values;
}

template <typename T>
T* copy_to_device(const std::vector<T>& values) {
  T* const memory = allocate<T>(values.size());
  MF_CUDA(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  MF_CUDA(cudaDeviceSynchronize());
  return memory;
}

// Of four arguments H I E K.
inline LayerShape shape_of(char** arguments) {
  return {.num_experts = std::atoi(arguments[2]),
          .topk = std::atoi(arguments[3]),
          .hidden = std::atoi(arguments[0]),
          .inter = std::atoi(arguments[1])};
}

enum class LaunchKind {
  kGemms,  // the two GEMMs alone, over rows that a whole launch has left in the pool
  kLayer,  // a head and a whole launch
};

class RandomLayer {
 public:
  RandomLayer(const LayerShape& shape, int32_t num_tokens, int32_t num_sms) {
    const MegaConfig config =
        resolve_config({.shape = shape, .max_tokens = num_tokens, .num_sms = num_sms}, sms_of(0));
    const auto experts = int64_t{shape.num_experts};
    constexpr float kScale = 0.05f;
    layer_ = std::make_unique<HeadedLayer>(
        config, MegaWeights{.w1 = random_values(experts * shape.w1_elements(), kScale, 1),
                            .w2 = random_values(experts * shape.w2_elements(), kScale, 2)});
    std::vector<int32_t> ids;
    std::vector<float> weights;
    for (int64_t i = 0; i < int64_t{num_tokens} * shape.topk; ++i) {
      ids.push_back(static_cast<int32_t>(i % experts));
      weights.push_back(1.0f / static_cast<float>(1 + i % 7));
    }
    routing_ = {.num_tokens = num_tokens,
                .topk = shape.topk,
                .topk_ids = copy_to_device(ids),
                .topk_weights = copy_to_device(weights)};
    const int64_t elements = int64_t{num_tokens} * shape.hidden;
    inputs_ = layer_->inputs(routing_, random_values(elements, 1.0f, 3),
                             allocate<Bf16>(static_cast<size_t>(elements)));
    MF_CUDA(cudaEventCreate(&begin_));
    MF_CUDA(cudaEventCreate(&end_));
    run(LaunchKind::kLayer, 3);
  }

  void set_trace(const TraceBuffer& trace) { inputs_.trace = trace; }

  // Milliseconds a launch, back to back on one stream.
  double run(LaunchKind kind, int32_t launches) {
    const cudaStream_t stream = layer_->group().stream(0);
    ForwardInputs inputs = inputs_;
    if (kind == LaunchKind::kGemms) inputs.stages = ForwardStages::kGemms;
    MF_CUDA(cudaEventRecord(begin_, stream));
    for (int32_t i = 0; i < launches; ++i) {
      if (kind == LaunchKind::kLayer) layer_->launch_head(routing_);
      layer_->launch_forward(inputs);
    }
    MF_CUDA(cudaEventRecord(end_, stream));
    layer_->group().synchronize();
    float ms = 0;
    MF_CUDA(cudaEventElapsedTime(&ms, begin_, end_));
    return ms / static_cast<float>(launches);
  }

 private:
  std::unique_ptr<HeadedLayer> layer_;
  RoutingView routing_;
  ForwardInputs inputs_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace megaflux::bench
