// StepRig: a session, the tensors of one step of it, and the calls that tests make with them.
#pragma once

#include <memory>
#include <vector>

#include "megaflux/session/session.h"
#include "parity/compare.h"

namespace megaflux {

SessionConfig session_config(const StepData& data);

class StepRig {
 public:
  explicit StepRig(const StepData& data, int32_t num_layers = 1);
  StepRig(const StepData& data, const SessionConfig& config);

  // Poisons y and runs the forward of `layer`.
  ForwardContext forward(int32_t layer = 0, const Plan* plan = nullptr, Fault fault = Fault::kNone);
  ForwardContext replay(const ForwardContext& saved);
  // Poisons every output and runs the backward.
  void backward(ForwardContext& context, BackwardCall call = {},
                GradientMode mode = GradientMode::kNewFp32);
  // The call with every tensor filled in; the spans point into this rig.
  BackwardCall backward_call(BackwardCall call, GradientMode mode);
  // Forward and backward.
  StepOutput step(int32_t layer = 0, const Plan* plan = nullptr);

  Session& session() { return *session_; }
  StepReport report;
  StepOutput out;

 private:
  const StepData* data_;
  std::unique_ptr<Session> session_;
  std::vector<const void*> x_, dy_;
  std::vector<void*> y_, dx_;
  std::vector<float*> dp_;
  std::vector<GradientOutput> gradients_;
};

}  // namespace megaflux
