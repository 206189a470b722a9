// DeviceSession: the ranks of this process that run one MoE layer on GPUs, with replicas whose
// weights are pulled from their owners while the layer runs. It owns the group,
// heads, planners and forwards of its devices, and the order of calls; it computes nothing.
//
//   const DeviceSessionConfig config = {.shape = shape, .max_tokens = 4096, .plan = plan,
//                                       .ranks_per_device = 4};
//   DeviceSession session(config, [](const Layout& layout) {
//     const LocalConfig local = {.device_of = {0, 0, 0, 0, 1, 1, 1, 1}};
//     return std::make_unique<LocalGroup>(local, layout);
//   });
//   session.set_weights(0, weights);
//   session.forward(tensors);    // a head and a forward on every device
//   session.group().synchronize();
//
// Spans over ranks have one entry for each rank of this process: by device, then by rank, which is
// the order of the group's devices and their ranks. Calls allocate nothing, wait for nothing and
// may stand in a stream capture.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "megaflux/comm/device_group_cuda.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/layer/mega/forward_cuda.h"
#include "megaflux/layer/staged/distribute_weights_cuda.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/session/replica_transfer.h"

namespace megaflux {

struct DeviceSessionConfig {
  LayerShape shape;
  int32_t num_layers = 1;        // layers of this shape; they share slots and pools
  int32_t max_tokens = 0;        // T_max, tokens a rank
  PlanConfig plan;               // dims: E, P, s, beta; owners and all else of planning
  int32_t ranks_per_device = 1;  // the most that a device of the group hosts
  int64_t pool_rows = 0;         // C, rows a rank; 0 = ceil(1.25 T_max K) + 128 (E_local + s)
  int32_t num_sms = 0;           // of a rank in a forward; 0 = those of a device, dealt out evenly
  int32_t lag_waves = 2;         // mega_config.h
  bool keeps_replicas = false;   // slots stay valid across calls, keyed by layer and weight version
};

// What the session sees of a step on one rank.
struct DeviceStep {
  HeadResult head;
  std::vector<std::byte> plan;  // bytes of it; its header is zero if there is none
  WorkListHeader work;
};

class DeviceSession {
 public:
  using GroupMaker = std::function<std::unique_ptr<DeviceGroup>(const Layout&)>;

  // The current device stands for all where sizes depend on the number of SMs. Throws kBadInput
  // naming the field, the value and the limit, and what the group's maker throws.
  DeviceSession(const DeviceSessionConfig& config, const GroupMaker& make_group);

  // Collective: the weights of a layer on every rank, in memory of its device, which stays where it
  // is; called again if they move. Counts as a change of the layer's weights. Not while a launch is
  // under way; those captured before have the old places in them, and are not replayed. Throws
  // kBadInput naming what is missing or misplaced.
  void set_weights(int32_t layer, std::span<const MegaWeights> weights);

  DeviceGroup& group() { return *group_; }
  int32_t num_local() const { return num_local_; }
  const MegaConfig& config() const { return mega_; }
  const MegaFields& fields() const { return fields_; }
  const DeviceHeadFields& head_fields() const { return head_fields_; }
  // Heap of a rank of this process.
  std::byte* base(int32_t local_idx) const;
  // The replica slots of a rank.
  const SlotPool& slots(int32_t local_idx) const;
  // [T_max, H] where peers read a rank's tokens: an x that lies here is not copied. Null if P = 1.
  Bf16* tokens(int32_t local_idx) const;

  // One launch of the protocol on every device, on the group's streams or on those of the caller,
  // one a device. `route` counts, plans and lists; `distribute` fills the slots that this plan
  // wants, for computes that find them in place; `compute` executes what the last `route` left;
  // `forward` is route and compute. After a route without a plan a compute is refused on all ranks:
  // y stays as it is. Where replicas are kept, all are about the layer and version of the route.
  using Streams = std::span<const cudaStream_t>;
  void route(std::span<const ForwardTensors> ranks, const DeviceHeadStep& step = {},
             Streams streams = {});
  void distribute(const DeviceHeadStep& step = {}, Streams streams = {});
  void compute(std::span<const ForwardTensors> ranks, const DeviceHeadStep& step = {},
               Streams streams = {});
  void forward(std::span<const ForwardTensors> ranks, const DeviceHeadStep& step = {},
               Streams streams = {});
  // A plan from elsewhere in the place of what the last route has planned, for the computes until
  // the next one; `loads` are the rows that this route has counted. Waits for the devices. Throws
  // kBadInput with the first violations if it is not legal for them, or calls a slot resident that
  // does not hold its expert.
  void put_plan(const Plan& from, const LoadTable& loads);
  // How the next computes come by the weights of replicas, which stages they do alone, which fault
  // of a forward they commit, the same on every rank, and into which buffers they trace, one a
  // device. What a faulty compute leaves in slots is not kept.
  void set_transfer(ReplicaTransfer transfer) { transfer_ = transfer; }
  void set_stages(ForwardStages stages) { stages_ = stages; }
  void set_fault(Fault fault) { fault_ = fault; }
  void set_traces(std::vector<TraceBuffer> traces);

  // Collective, as the group's recover(), in whose place it is called: no slot is taken to be
  // filled any more.
  void recover();
  // Throws what the launches that have ended have to say: the group's check_sound, then the heads'.
  void check();
  // What the last route left on a rank; waits for the devices.
  DeviceStep read_step(int32_t local_idx) const;

 private:
  struct Side {
    std::unique_ptr<DeviceHead> head;
    std::unique_ptr<DevicePlanner> planner;
    std::unique_ptr<MegaForward> forward;
    std::unique_ptr<DistributeWeights> distribute;  // with slots
    int32_t first = 0;                              // local index of its first rank
    int32_t count = 0;
  };

  template <typename Fn>
  void launch(Streams streams, Fn&& fn);
  // Where the experts' weights lie at their owners, [E].
  std::vector<ExpertSource> find_sources(std::span<const MegaWeights> weights) const;
  const Side& side_of(int32_t local_idx) const;
  // Heads, planners and forwards of the group's devices.
  void add_sides(const HeadConfig& head, int32_t num_layers);
  // fn(local_idx) for all ranks, each with its device current: what the host writes then goes
  // through a stream that wait_for_devices waits for, whatever device the caller has.
  template <typename Fn>
  void each_rank(Fn&& fn) const;
  // For all that runs on the devices of this process, on streams of the caller too.
  void wait_for_devices() const;
  // No slot holds anything.
  void clear_slots();
  // [P, s] what the slots hold, once nothing runs; empty if replicas are not kept.
  std::vector<int32_t> residents() const;
  void check_count(std::span<const ForwardTensors> ranks) const;
  void check_routed(const DeviceHeadStep& step) const;
  void share_tokens(const Side& side, std::span<const ForwardTensors> ranks, cudaStream_t stream);
  std::vector<int32_t> local_ranks() const;  // by local index

  MegaConfig mega_;
  std::vector<int32_t> owner_of_;  // [E]
  MegaFields fields_;
  DeviceHeadFields head_fields_;
  PlannedFields planned_;
  std::unique_ptr<DeviceGroup> group_;
  int32_t num_local_ = 0;
  std::vector<Side> sides_;  // [devices]
  bool keeps_replicas_ = false;
  SlotKey routed_for_;  // the weights that the last route was about
  ReplicaTransfer transfer_ = ReplicaTransfer::kPipelined;
  ForwardStages stages_ = ForwardStages::kWhole;
  Fault fault_ = Fault::kNone;
  std::vector<TraceBuffer> traces_;  // [devices] or none
};

}  // namespace megaflux
