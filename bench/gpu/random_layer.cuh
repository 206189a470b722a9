// A layer with random weights and tokens, and balanced ids of a fixed pattern: full blocks if P T K
// / E is a multiple of 128. What the programs that time and trace a forward run.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/session/device_session_cuda.h"

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

// Ranks of a layer and where they are: dealt to the devices evenly, in order.
struct Placement {
  int32_t num_ranks = 1;
  int32_t num_devices = 1;
  int32_t device_of(int32_t rank) const { return rank * num_devices / num_ranks; }
};

class RandomLayer {
 public:
  RandomLayer(const LayerShape& shape, int32_t num_tokens, int32_t num_sms,
              const Placement& placement = {}) {
    DeviceSessionConfig config;
    config.shape = shape;
    config.max_tokens = num_tokens;
    config.plan.planner = PlannerKind::kFixed;
    config.plan.dims = {.num_experts = shape.num_experts, .num_ranks = placement.num_ranks};
    config.ranks_per_device = ceil_div(placement.num_ranks, placement.num_devices);
    config.num_sms = num_sms;
    LocalConfig local;
    std::vector<MegaWeights> weights;
    for (int32_t rank = 0; rank < placement.num_ranks; ++rank) {
      local.device_of.push_back(placement.device_of(rank));
      const CurrentDevice current(local.device_of.back());
      weights.push_back(random_weights(shape, placement.num_ranks, rank));
    }
    const CurrentDevice current(0);
    session_ = std::make_unique<DeviceSession>(config, weights, [&](const Layout& layout) {
      return std::make_unique<LocalGroup>(local, layout);
    });
    for (int32_t rank = 0; rank < placement.num_ranks; ++rank) {
      const CurrentDevice on(local.device_of[rank]);
      tensors_.push_back(random_tensors(shape, num_tokens, rank));
    }
    for (size_t i = 0; i < session_->group().num_devices(); ++i) {
      const CurrentDevice on(session_->group().device(i));
      MF_CUDA(cudaEventCreate(&begin_.emplace_back()));
      MF_CUDA(cudaEventCreate(&end_.emplace_back()));
    }
    run(LaunchKind::kLayer, 3);
  }

  DeviceSession& session() { return *session_; }

  // Milliseconds a launch, back to back on one stream a device; the slowest device counts.
  double run(LaunchKind kind, int32_t launches) {
    DeviceGroup& group = session_->group();
    session_->set_stages(kind == LaunchKind::kGemms ? ForwardStages::kGemms
                                                    : ForwardStages::kWhole);
    const auto record = [&](const std::vector<cudaEvent_t>& events) {
      for (size_t i = 0; i < events.size(); ++i) {
        const CurrentDevice current(group.device(i));
        MF_CUDA(cudaEventRecord(events[i], group.stream(i)));
      }
    };
    // Brings all devices to the same place.
    session_->route(tensors_);
    record(begin_);
    for (int32_t i = 0; i < launches; ++i) {
      if (kind == LaunchKind::kLayer) session_->route(tensors_);
      session_->compute(tensors_);
    }
    record(end_);
    group.synchronize();
    float slowest_ms = 0;
    for (size_t i = 0; i < begin_.size(); ++i) {
      float ms = 0;
      MF_CUDA(cudaEventElapsedTime(&ms, begin_[i], end_[i]));
      slowest_ms = std::max(slowest_ms, ms);
    }
    return slowest_ms / static_cast<float>(launches);
  }

 private:
  // Of the experts that a rank owns, on the current device.
  static MegaWeights random_weights(const LayerShape& shape, int32_t num_ranks, int32_t rank) {
    const std::vector<int32_t> owners = contiguous_owners(shape.num_experts, num_ranks);
    const int32_t owned = owned_experts(owners, num_ranks)[rank];
    constexpr float kScale = 0.05f;
    const uint64_t seed = 4 * static_cast<uint64_t>(rank);
    return {.num_weights = owned,
            .w1 = random_values(owned * shape.w1_elements(), kScale, seed + 1),
            .w2 = random_values(owned * shape.w2_elements(), kScale, seed + 2)};
  }
  // Tokens lie where peers read them, so that no copy is timed.
  ForwardTensors random_tensors(const LayerShape& shape, int32_t num_tokens, int32_t rank) const {
    const int64_t elements = int64_t{num_tokens} * shape.hidden;
    Bf16* x = random_values(elements, 1.0f, 4 * static_cast<uint64_t>(rank) + 3);
    if (Bf16* const shared = session_->tokens(rank)) {
      MF_CUDA(cudaMemcpy(shared, x, static_cast<size_t>(elements) * sizeof(Bf16),
                         cudaMemcpyDeviceToDevice));
      MF_CUDA(cudaFree(x));
      x = shared;
    }
    std::vector<int32_t> ids;
    std::vector<float> weights;
    for (int64_t i = 0; i < int64_t{num_tokens} * shape.topk; ++i) {
      ids.push_back(static_cast<int32_t>(i % shape.num_experts));
      weights.push_back(1.0f / static_cast<float>(1 + i % 7));
    }
    return {.x = x,
            .y = allocate<Bf16>(static_cast<size_t>(elements)),
            .routing = {.num_tokens = num_tokens,
                        .topk = shape.topk,
                        .topk_ids = copy_to_device(ids),
                        .topk_weights = copy_to_device(weights)}};
  }

  std::unique_ptr<DeviceSession> session_;
  std::vector<ForwardTensors> tensors_;   // [P]
  std::vector<cudaEvent_t> begin_, end_;  // [devices]
};

}  // namespace megaflux::bench
