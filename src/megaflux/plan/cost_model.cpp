// The predicted time of rank r, all quantities non-negative integers:
//
//   compute  = finish_blocks * block_ps
//   cover    = owned_blocks * block_ps    weights arrive and partials are added while these run
//   incoming = (copies_in * weight_bytes + replicas_out * gradient_bytes) / link
//              + latency if copies_in
//   outgoing = (copies_out * weight_bytes + replicas_in * gradient_bytes) / link
//              + latency if copies_out
//   rounds   = ceil(load_blocks / pool_blocks)
//   rank_ns  = max(compute + max(0, incoming - cover), outgoing) + max(0, rounds - 1) * round_ns
//   layer_ns = max over ranks of rank_ns, + plan_ns
//
// What comes in delays the rank's own blocks unless owned blocks hide it; what goes out runs beside
// the rank's compute and only bounds it from below. Each term is rounded up to whole nanoseconds.
// Products are taken in 128 bits and a sum beyond 64 bits is UINT64_MAX, so predictions grow with
// every cost.
#include "megaflux/plan/cost_model.h"

#include <algorithm>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"

namespace megaflux {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int64_t kMinGflops = 10;
constexpr int64_t kMaxRate = 1'000'000'000;
constexpr int64_t kMaxFixedNs = 1'000'000'000;

// Least whole number >= numerator / denominator, at most UINT64_MAX.
uint64_t ceil_saturated(Wide numerator, uint64_t denominator) {
  const Wide quotient = numerator / denominator + (numerator % denominator != 0);
  return static_cast<uint64_t>(std::min<Wide>(quotient, std::numeric_limits<uint64_t>::max()));
}

uint64_t blocks_ns(const CostModel& model, int64_t blocks) {
  return ceil_saturated(Wide(static_cast<uint64_t>(blocks)) * model.block_ps, 1000);
}

// Time on one direction of a rank's link: `copies` fresh replicas and `gradients` partial
// gradients.
Wide link_ns(const CostModel& model, int32_t copies, int32_t gradients) {
  if (copies == 0 && (gradients == 0 || model.gradient_bytes == 0)) return 0;
  const Wide bytes = Wide(static_cast<uint64_t>(copies)) * model.weight_bytes +
                     Wide(static_cast<uint64_t>(gradients)) * model.gradient_bytes;
  const uint64_t latency_ns = copies > 0 ? model.copy_latency_ns : 0;
  return Wide(ceil_saturated(bytes * 1000, model.link_bytes_per_us)) + latency_ns;
}

void check_field(const char* name, int64_t value, int64_t least, int64_t most) {
  MF_CHECK(value >= least && value <= most, "machine: ", name, ": ", value, " is outside [", least,
           ", ", most, "]");
}

}  // namespace

MachineModel machine_model(const std::string& name) {
  MF_CHECK(name == "h200", "machine: '", name, "' is not known; known machines: h200");
  return MachineModel{};
}

void check_machine(const MachineModel& machine) {
  check_field("gflops", machine.gflops, kMinGflops, kMaxRate);
  check_field("link_mb_per_s", machine.link_mb_per_s, 1, kMaxRate);
  check_field("plan_ns", machine.plan_ns, 0, kMaxFixedNs);
  check_field("pre_gate_ns", machine.pre_gate_ns, 0, kMaxFixedNs);
  check_field("copy_latency_ns", machine.copy_latency_ns, 0, kMaxFixedNs);
  check_field("round_ns", machine.round_ns, 0, kMaxFixedNs);
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
          .plan_ns = static_cast<uint64_t>(machine.plan_ns),
          .pre_gate_ns = static_cast<uint64_t>(machine.pre_gate_ns),
          .copy_latency_ns = passes * machine.copy_latency_ns,
          .round_ns = passes * machine.round_ns,
          .pool_blocks = pool_rows / block_rows};
}

uint64_t rank_ns(const CostModel& model, const RankCost& rank) {
  const Wide incoming = link_ns(model, rank.copies_in, rank.replicas_out);
  const Wide outgoing = link_ns(model, rank.copies_out, rank.replicas_in);
  const Wide cover = blocks_ns(model, rank.owned_blocks);
  const Wide exposed = incoming > cover ? incoming - cover : 0;
  const Wide busy = std::max(blocks_ns(model, rank.finish_blocks) + exposed, outgoing);
  uint64_t refills = 0;
  if (model.pool_blocks > 0 && rank.load_blocks > 0) {
    refills = static_cast<uint64_t>(ceil_div(rank.load_blocks, model.pool_blocks) - 1);
  }
  return ceil_saturated(busy + Wide(refills) * model.round_ns, 1);
}

uint64_t layer_ns(const CostModel& model, std::span<const RankCost> ranks) {
  uint64_t slowest = 0;
  for (const RankCost& rank : ranks) slowest = std::max(slowest, rank_ns(model, rank));
  return ceil_saturated(Wide(slowest) + model.plan_ns, 1);
}

}  // namespace megaflux
