// Calibration: measures the MachineModel of the devices that a layer runs on, with the layer's own
// head and forward, so that the gate weighs the times of this machine and not those of another.
//
//   const MachineModel machine = calibrate(config, make_group, weights);
//   config.plan.objective = Objective::kCost;
//   config.plan.cost = make_cost_model(machine, config.shape, config.plan.dims.block_rows, scope);
//   DeviceSession session(config, make_group);
//
// What is measured, over T_max tokens a rank:
//   gflops           (t_hot - t_balanced) / (blocks_hot - blocks_balanced) of forwards with fixed
//                    placement: what the slowest rank pays for one more block, which is what a
//                    plan saves
//   link_mb_per_s    the transfer of n replicas a rank against that of one, all ranks at once
//   send_mb_per_s    the same with rank 0 as the owner of all, from which as many ranks pull at
//   once
//                    as its experts have blocks for; 0, the link's, if fewer than 2 can
//   copy_latency_ns  what such a transfer takes beyond its bytes, less an empty one; 0 where a rank
//                    owns one expert alone, and link_mb_per_s has it inside
//   plan_ns          a head whose planner searches
//   pre_gate_ns      a head whose pre-gate answers
// round_ns keeps its value of machine_model("h200"). Where E is no multiple of P, balanced experts
// are uneven over ranks and a pre-gate may search: pre_gate_ns then comes near plan_ns, and a
// search counts as free.
#pragma once

#include <span>

#include "megaflux/plan/cost_model.h"
#include "megaflux/session/device_session_cuda.h"

namespace megaflux {

// Makes a session for the time of the call; takes some seconds and the memory of that session.
// `config` as the session that is to be, at least one of whose ranks must be able to host a
// replica, and all of which must own an expert: P >= 2; of its planning, sizes and owners alone
// play a part. `weights` of the ranks of this process, by device, then by rank, whatever their
// values. Collective; with several processes the model of rank 0 is the one to hand to all, since
// every rank must decide from the same numbers (they are part of the configuration's hash). The
// model's name is empty. Throws kBadInput naming the field, the value and the limit, also for
// shapes and T_max at which the hot routing does not exist or is no hotter than the balanced one,
// and what the session throws.
MachineModel calibrate(const DeviceSessionConfig& config,
                       const DeviceSession::GroupMaker& make_group,
                       std::span<const MegaWeights> weights);

}  // namespace megaflux
