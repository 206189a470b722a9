// Session: P ranks of this process that run MoE layers of one shape. It owns memory, slots, the
// rank group, planners and the order of calls; it computes nothing.
//
//   Session session({.shape = shape, .max_tokens = 1024, .plan = {.dims = {64, 8, 2, 128}}});
//   for each rank: session.set_weights(layer, rank, weights);
//   ForwardContext context = session.forward({.layer = 0, .routing = r, .x = x, .y = y}, report);
//   session.backward(context, {.dy = dy, .dx = dx, .dp = dp, .gradients = g}, report);
//
// Spans over ranks have P entries. Rank r's tensors: x, y, dy, dx [T_r, H] of the layer's dtype, dp
// [T_r, K] fp32; a null pointer stands for T_r = 0. Outputs are no memory of inputs: y is
// not x, dx neither dy nor x, of no rank and not in part either. The caller keeps weights alive
// while they are set, and x until the backward. One call at a time; all memory is allocated at
// creation and by the first step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megaflux/comm/threads_group.h"
#include "megaflux/head/head.h"
#include "megaflux/layer/cpu/backward.h"
#include "megaflux/layer/cpu/forward.h"
#include "megaflux/moe/forward_context.h"
#include "megaflux/session/step_report.h"

namespace megaflux {

struct SessionConfig {
  LayerShape shape;
  int32_t num_layers = 1;       // layers of this shape; they share slots and pools
  int32_t max_tokens = 0;       // T_max, tokens a rank
  PlanConfig plan;              // dims: E, P, s, beta; owners and all else of planning
  int64_t pool_rows = 0;        // C, rows a rank; 0 = ceil(1.25 T_max K) + 128 (E_local + s)
  int64_t z_rows = -1;          // Z rows kept a rank, cut to whole tiles; -1 = C, 0 = recompute all
  int32_t fc2_lag_tiles = 1;    // less than C / 128
  int32_t max_contexts = 16;    // forwards whose backward is still to come
  bool keeps_replicas = false;  // slots stay valid across calls, keyed by (layer, expert, weights)
  GemmBackend gemm = GemmBackend::kAuto;
  WeightPacking packing = WeightPacking::kPerVersion;
  WaitConfig waits;                 // deadline of every wait between ranks
  bool is_memory_poisoned = false;  // tests: fresh memory holds NaNs
};

struct ForwardCall {
  int32_t layer = 0;
  std::span<const RoutingView> routing = {};  // [P]
  std::span<const void* const> x = {};        // [P]
  std::span<void* const> y = {};              // [P], overwritten
  bool keeps_z = true;                        // false: nothing is kept of Z, as in inference
  const Plan* plan = nullptr;                 // from outside, checked; null = plan here
  Fault fault = Fault::kNone;
};

struct BackwardCall {
  std::span<const void* const> dy = {};            // [P]
  std::span<void* const> dx = {};                  // [P], overwritten
  std::span<float* const> dp = {};                 // [P], overwritten
  std::span<const GradientOutput> gradients = {};  // [P], of each rank's experts
  bool plans_afresh = false;   // plan again for the backward objective; Z is then recomputed
  const Plan* plan = nullptr;  // or a plan from outside, checked; Z is then recomputed
  Fault fault = Fault::kNone;
};

class Session {
 public:
  // Throws kBadInput naming the field, the value and the limit.
  explicit Session(SessionConfig config);

  int32_t num_ranks() const { return layer_.num_ranks; }
  const SessionConfig& config() const { return config_; }
  // The executor's configuration with every default filled in.
  const CpuLayerConfig& layer_config() const { return layer_; }
  // Bytes of one rank, without Z and the caller's tensors, if all backwards are of `mode`; and
  // those of Z of one context.
  LayerMemory memory(GradientMode mode = GradientMode::kNewFp32) const {
    return layer_memory(layer_, mode);
  }
  int64_t z_bytes() const;

  // Weights of the experts `rank` owns, ascending id. Counts as a change of the layer's weights,
  // and is called again if they move to other memory: pointers are kept, nothing else of them.
  void set_weights(int32_t layer, int32_t rank, const OwnedWeights& weights);
  // The layer's weights were written: no pack and no replica made before is used again.
  void weights_changed(int32_t layer);

  // Counts, plans, executes. If experts with rows have no living owner, report.plan.orphans lists
  // them, nothing is executed and the context is empty. Throws kBadInput (nothing written),
  // kDisagree, or kTimeout, after which every call is refused until recover().
  ForwardContext forward(const ForwardCall& call, StepReport& report);
  // The forward of `saved` again, with its plan, ids and routing weights; never plans. `saved` is
  // not consumed.
  ForwardContext replay(const ForwardContext& saved, std::span<const void* const> x,
                        std::span<void* const> y, StepReport& report);
  // Consumes the context and gives its memory back, unless the call is refused.
  void backward(ForwardContext& context, const BackwardCall& call, StepReport& report);

  // After a failure: all ranks start afresh; contexts stay valid, replicas do not.
  void recover();
  ThreadsGroup& group() { return *group_; }

 private:
  struct LayerWeights {
    std::vector<OwnedWeights> ranks;  // [P]
    std::vector<uint8_t> is_set;      // [P]
    uint64_t version = 1;
  };
  // What a slot holds.
  struct SlotContent {
    int32_t layer = -1;
    int32_t expert = -1;
    uint64_t version = 0;
    friend bool operator==(const SlotContent&, const SlotContent&) = default;
  };
  // What execute_forward runs.
  struct Execution {
    LaunchOp op = LaunchOp::kForward;
    std::span<const void* const> x;
    std::span<void* const> y;
    bool keeps_z = true;
    Fault fault = Fault::kNone;
  };

  void check_layer(int32_t layer) const;
  void check_weights(int32_t layer) const;
  void check_forward(const ForwardCall& call) const;
  // Throws kBadInput if the context cannot be read or is not of this session.
  const ForwardState& state_of(const ForwardContext& context) const;
  // A context with room for any step of this session.
  ForwardContext acquire_context();
  std::span<const int32_t> find_residents(int32_t layer);
  // False if there is no legal plan.
  bool run_head(const ForwardCall& call, StepReport& report);
  void execute_forward(ForwardState& state, const Execution& execution, StepReport& report);
  void fill_launch(const ForwardState& state, const Plan& plan, int32_t rank, Launch& launch) const;
  // Before a launch: which slots hold what the plan wants; after it: what they hold now, nothing
  // that can be relied on after an injected fault.
  void mark_filled_slots(int32_t layer, const Plan& plan);
  void record_slots(int32_t layer, const Plan& plan, Fault fault);
  // The plan of the backward.
  const Plan& backward_plan(const ForwardState& state, const BackwardCall& call,
                            StepReport& report);
  void collect(StepReport& report) const;

  SessionConfig config_;
  CpuLayerConfig layer_;
  uint64_t config_hash_ = 0;
  std::unique_ptr<ThreadsGroup> group_;
  std::vector<std::unique_ptr<RankWorkspace>> workspaces_;  // [P]
  std::vector<std::unique_ptr<Head>> heads_;                // [P]
  std::unique_ptr<Planner> backward_planner_;               // made by the first fresh backward
  Plan fresh_plan_;
  std::vector<LayerWeights> layers_;
  ForwardArena arena_;
  std::vector<SlotContent> slots_;                      // [P s]
  std::vector<int32_t> residents_;                      // [P s]
  std::vector<uint8_t> is_slot_filled_;                 // [P s]
  std::vector<WorkList> forward_work_, backward_work_;  // [P]
  std::vector<ForwardLaunch> forward_launches_;         // [P]
  std::vector<BackwardLaunch> backward_launches_;       // [P]
};

}  // namespace megaflux
