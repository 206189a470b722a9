#include "megaflux/plan/cost_model.h"

#include <algorithm>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/plan/cost_rules.h"

namespace megaflux {
namespace {

constexpr int64_t kMinGflops = 10;
constexpr int64_t kMaxFixedNs = 1'000'000'000;

struct Field {
  const char* name;
  int64_t value, least, most;
};

void check_field(const std::string& where, const Field& field) {
  MF_CHECK(field.value >= field.least && field.value <= field.most, where, ": ", field.name, ": ",
           field.value, " is outside [", field.least, ", ", field.most, "]");
}

}  // namespace

MachineModel machine_model(const std::string& name) {
  MF_CHECK(name == "h200", "machine: '", name, "' is not known; known machines: h200");
  return MachineModel{};
}

void check_machine(const MachineModel& machine, const std::string& where) {
  for (const Field& field : {Field{"gflops", machine.gflops, kMinGflops, kMaxMachineRate},
                             Field{"link_mb_per_s", machine.link_mb_per_s, 1, kMaxMachineRate},
                             Field{"send_mb_per_s", machine.send_mb_per_s, 0, kMaxMachineRate},
                             Field{"plan_ns", machine.plan_ns, 0, kMaxFixedNs},
                             Field{"pre_gate_ns", machine.pre_gate_ns, 0, kMaxFixedNs},
                             Field{"copy_latency_ns", machine.copy_latency_ns, 0, kMaxFixedNs},
                             Field{"round_ns", machine.round_ns, 0, kMaxFixedNs}}) {
    check_field(where, field);
  }
}

CostModel make_cost_model(const MachineModel& machine, const LayerShape& shape, int32_t block_rows,
                          CostScope scope, int64_t pool_rows) {
  check_machine(machine);
  check_shape(shape);
  MF_CHECK(block_rows >= 1 && block_rows <= (1 << 20), "block_rows: ", block_rows,
           " is outside [1, ", 1 << 20, "]");
  MF_CHECK(pool_rows == 0 || pool_rows >= block_rows, "pool_rows: ", pool_rows,
           " holds no block of ", block_rows, " rows");
  const bool backward = scope == CostScope::kForwardBackward;
  // Backward computes the data gradients and the weight gradients, each as much as forward; it
  // pulls the replica weights again, since other layers have used the slots meanwhile, and fills
  // the pool again.
  const uint64_t compute_passes = backward ? 3 : 1;
  const uint64_t passes = backward ? 2 : 1;
  const Wide block_flops = Wide(static_cast<uint64_t>(shape.forward_flops_per_row())) *
                           static_cast<uint64_t>(block_rows) * compute_passes;
  return {.block_ps = ceil_saturated(block_flops * 1000, machine.gflops),
          .weight_bytes = passes * shape.expert_bytes(),
          .gradient_bytes = backward ? static_cast<uint64_t>(shape.expert_gradient_bytes()) : 0,
          .link_bytes_per_us = static_cast<uint64_t>(machine.link_mb_per_s),
          .send_bytes_per_us = static_cast<uint64_t>(machine.send_mb_per_s),
          .plan_ns = static_cast<uint64_t>(machine.plan_ns),
          .pre_gate_ns = static_cast<uint64_t>(machine.pre_gate_ns),
          .copy_latency_ns = passes * machine.copy_latency_ns,
          .round_ns = passes * machine.round_ns,
          .pool_blocks = pool_rows / block_rows};
}

uint64_t rank_ns(const CostModel& model, const RankCost& rank) {
  return rank_time_ns(cost_times(model), rank);
}

uint64_t layer_ns(const CostModel& model, std::span<const RankCost> ranks) {
  uint64_t slowest = 0;
  const CostTimes times = cost_times(model);
  for (const RankCost& rank : ranks) slowest = std::max(slowest, rank_time_ns(times, rank));
  return ceil_saturated(Wide(slowest) + model.plan_ns, 1);
}

}  // namespace megaflux
