// CpuRig: the CPU layer alone, over a threads group, driven by a plan from the test. No head, no
// session.
#pragma once

#include <memory>
#include <vector>

#include "megaflux/comm/threads_group.h"
#include "megaflux/layer/cpu/backward.h"
#include "megaflux/layer/cpu/forward.h"
#include "parity/step_data.h"

namespace megaflux {

struct RigOptions {
  GemmBackend gemm = GemmBackend::kAuto;
  int32_t pool_tiles = -1;  // -1 = what the case says, 0 = the default capacity
  int32_t fc2_lag_tiles = 1;
  WeightPacking packing = WeightPacking::kPerVersion;
  Fault fault = Fault::kNone;
  std::chrono::milliseconds deadline{60'000};
};

struct StepOutput {
  std::vector<TypedVector> y, dx;             // [P] of [T, H]
  std::vector<std::vector<float>> dp;         // [P] of [T, K]
  std::vector<TypedVector> w1, w2;            // [P] gradients, ascending local expert
  std::vector<std::vector<float>> b1, b2;     // [P]
  std::vector<RankReport> forward, backward;  // [P]
};

class CpuRig {
 public:
  CpuRig(const StepData& data, const RigOptions& options = {});

  // Both passes write into `out`, which is poisoned first; dW has the mode's dtype.
  void forward(const Plan& plan, ZChoice z, StepOutput& out);
  // With the plan of the forward before, unless another is given, which recomputes Z.
  void backward(GradientMode mode, StepOutput& out, const Plan* fresh_plan = nullptr);
  // Forward and backward under one plan, Z and pool as the case says.
  StepOutput step(const Plan& plan, GradientMode mode = GradientMode::kNewFp32);

  // Gradients start from these values instead of poison; for kAddToMain.
  void set_main_grad(float value) { main_grad_ = value; }
  ThreadsGroup& group() { return *group_; }
  const CpuLayerConfig& config() const { return config_; }
  int64_t weight_version = 1;

 private:
  Launch launch_of(int32_t rank, LaunchOp op, const Plan& plan, const WorkList& work) const;
  void shape_gradients(GradientMode mode, StepOutput& out) const;

  const StepData* data_;
  RigOptions options_;
  CpuLayerConfig config_;
  LayerFields fields_;
  std::unique_ptr<ThreadsGroup> group_;
  std::vector<std::unique_ptr<RankWorkspace>> workspaces_;  // [P]
  LoadTable loads_;
  Plan plan_;
  std::vector<WorkList> forward_work_, backward_work_;  // [P]
  std::vector<std::vector<std::byte>> z_;               // [P]
  std::vector<ZStore> z_stores_;                        // [P]
  float main_grad_ = 0;
};

}  // namespace megaflux
