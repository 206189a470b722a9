// CostModel: predicted time of a layer under a plan, in integers, so that every rank and device
// decides alike.
//
// The prediction counts what a plan can change: compute of the slowest rank, replica weights into
// their hosts and out of their owners, the part of a transfer that hides behind owned blocks, the
// gradient reduction of a backward pass, extra rounds of a rank whose rows exceed its pool, and the
// planner itself. Dispatch and combine move the same rows under every plan and are left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "megaflux/moe/layer_shape.h"

namespace megaflux {

inline constexpr int64_t kMaxMachineRate = 1'000'000'000;  // of any rate of a machine

// What a machine offers, in round integers; tools read it from a JSON file, "h200" is built in.
struct MachineModel {
  std::string name = "h200";
  int64_t gflops = 700'000;         // dense bf16 rate of the grouped GEMMs, GFLOP/s
  int64_t link_mb_per_s = 335'000;  // into a rank while all are busy, 10^6 bytes a second
  int64_t send_mb_per_s = 0;        // out of a rank that several pull from; 0 = link_mb_per_s
  int64_t plan_ns = 20'000;         // head and planner when a search runs
  int64_t pre_gate_ns = 2'000;      // head when the pre-gate decides
  int64_t copy_latency_ns = 3'000;  // from the entry to the first byte of a replica's weights
  int64_t round_ns = 10'000;        // draining and refilling the row pool once
};

// Throws kBadInput with the list of known names.
MachineModel machine_model(const std::string& name);
// Throws kBadInput naming the field, the value and the limit behind `where`.
void check_machine(const MachineModel& machine, const std::string& where = "machine");

// Which passes one plan serves.
enum class CostScope : uint8_t { kForward, kForwardBackward };

struct CostModel {
  uint64_t block_ps = 0;        // compute of one full block of one rank at full speed, picoseconds
  uint64_t weight_bytes = 0;    // bytes one fresh replica pulls, all passes together
  uint64_t gradient_bytes = 0;  // bytes one replica's reduction moves; 0 for forward alone
  uint64_t link_bytes_per_us = 0;  // into a rank
  uint64_t send_bytes_per_us = 0;  // out of a rank; 0 = link_bytes_per_us
  uint64_t plan_ns = 0;
  uint64_t pre_gate_ns = 0;
  uint64_t copy_latency_ns = 0;
  uint64_t round_ns = 0;
  int64_t pool_blocks = 0;  // blocks the row pool holds; 0 = unlimited, one round
};

// Derives the integers for one layer. `pool_rows` is C, 0 = unlimited.
CostModel make_cost_model(const MachineModel& machine, const LayerShape& shape, int32_t block_rows,
                          CostScope scope, int64_t pool_rows = 0);

// What a plan asks of one rank.
struct RankCost {
  int64_t finish_blocks = 0;  // f_r: blocks, other work and speed included
  int64_t owned_blocks = 0;   // blocks of owned experts computed here: cover for incoming weights
  int64_t load_blocks = 0;    // l_r
  int32_t copies_in = 0;      // fresh replicas this rank hosts
  int32_t copies_out = 0;     // fresh replicas of experts it owns, on other ranks
  int32_t replicas_out = 0;   // all replicas of experts it owns: gradients it reduces
  int32_t replicas_in = 0;    // all replicas it hosts: gradients it sends
};

// Predicted nanoseconds of one rank, without the planner's own time.
uint64_t rank_ns(const CostModel& model, const RankCost& rank);

// Predicted nanoseconds of the layer: the slowest rank, plus plan_ns.
uint64_t layer_ns(const CostModel& model, std::span<const RankCost> ranks);

}  // namespace megaflux
