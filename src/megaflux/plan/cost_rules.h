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
#pragma once

#include <cstdint>
#include <limits>

#include "megaflux/base/math.h"
#include "megaflux/plan/cost_model.h"

namespace megaflux {

__extension__ using Wide = unsigned __int128;

// Least whole number >= numerator / denominator, at most UINT64_MAX.
MF_HOST_DEVICE inline uint64_t ceil_saturated(Wide numerator, uint64_t denominator) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  auto high = static_cast<uint64_t>(numerator >> 64);
  auto low = static_cast<uint64_t>(numerator);
  if (high == 0) {
    const uint64_t quotient = low / denominator;
    return quotient + (quotient * denominator != low);
  }
  if (high >= denominator) return kMost;
  // Bit by bit: a division of 128 bits is a call, which a kernel would have to keep a stack for.
  MF_UNROLL(1)
  for (int bit = 0; bit < 64; ++bit) {
    const bool carry = high >> 63 != 0;
    high = high << 1 | low >> 63;
    low <<= 1;
    if (carry || high >= denominator) {
      high -= denominator;
      low |= 1;
    }
  }
  return low + (high != 0 && low != kMost);
}

MF_HOST_DEVICE inline uint64_t blocks_ns(const CostModel& model, int64_t blocks) {
  return ceil_saturated(Wide(static_cast<uint64_t>(blocks)) * model.block_ps, 1000);
}

// Time on one direction of a rank's link: `copies` fresh replicas and `gradients` partial
// gradients.
MF_HOST_DEVICE inline Wide link_ns(const CostModel& model, int32_t copies, int32_t gradients) {
  if (copies == 0 && (gradients == 0 || model.gradient_bytes == 0)) return 0;
  const Wide bytes = Wide(static_cast<uint64_t>(copies)) * model.weight_bytes +
                     Wide(static_cast<uint64_t>(gradients)) * model.gradient_bytes;
  const uint64_t latency_ns = copies > 0 ? model.copy_latency_ns : 0;
  return Wide(ceil_saturated(bytes * 1000, model.link_bytes_per_us)) + latency_ns;
}

// Predicted nanoseconds of one rank, without the planner's own time.
MF_HOST_DEVICE inline uint64_t rank_time_ns(const CostModel& model, const RankCost& rank) {
  const Wide incoming = link_ns(model, rank.copies_in, rank.replicas_out);
  const Wide outgoing = link_ns(model, rank.copies_out, rank.replicas_in);
  const Wide cover = blocks_ns(model, rank.owned_blocks);
  const Wide exposed = incoming > cover ? incoming - cover : 0;
  const Wide computing = blocks_ns(model, rank.finish_blocks) + exposed;
  const Wide busy = computing > outgoing ? computing : outgoing;
  uint64_t refills = 0;
  if (model.pool_blocks > 0 && rank.load_blocks > 0) {
    refills = static_cast<uint64_t>(ceil_div(rank.load_blocks, model.pool_blocks) - 1);
  }
  return ceil_saturated(busy + Wide(refills) * model.round_ns, 1);
}

// By how much a search makes a head longer. The head itself runs in either case.
MF_HOST_DEVICE inline uint64_t search_ns(const CostModel& cost) {
  return cost.plan_ns > cost.pre_gate_ns ? cost.plan_ns - cost.pre_gate_ns : 0;
}

// After a wave of searches that predicted `best_ns`: could another wave pay for its time? No plan
// finishes before tau.
MF_HOST_DEVICE inline bool another_wave_may_pay(const CostModel& cost, uint64_t best_ns,
                                                int64_t tau) {
  return Wide(best_ns) > blocks_ns(cost, tau) + Wide(cost.plan_ns) + search_ns(cost);
}

// What a pre-gate knows of a step, in blocks of the cost model.
struct PreGateFacts {
  int64_t gain_blocks = 0;    // largest finish of fixed placement above tau
  int64_t cover_blocks = 0;   // most owned blocks of a rank
  bool copy_is_free = false;  // a slot holds an expert already, or ranks differ in speed or work
};

// Before any search: even if all ranks finished at tau, would that pay for searching and for the
// copy that is hidden best, the one into the rank with most owned blocks? The copy counts as free
// where a slot holds an expert already, and where ranks differ in speed or other work: their cover
// is no longer a number of blocks, and a gate must not refuse what could pay.
MF_HOST_DEVICE inline bool pre_gate_refuses(const CostModel& cost, const PreGateFacts& facts) {
  RankCost host;
  host.finish_blocks = host.owned_blocks = facts.cover_blocks;
  uint64_t without_ns = 0, with_ns = 0;
  MF_UNROLL(1)
  for (int copies = 0; copies <= 1; ++copies) {
    without_ns = with_ns;
    host.copies_in = facts.copy_is_free ? 0 : copies;
    with_ns = rank_time_ns(cost, host);
  }
  const uint64_t copy_ns = with_ns - without_ns;
  // Divided instead of multiplied: block_ps times blocks may pass 64 bits.
  const uint64_t price_ns = search_ns(cost) + copy_ns;
  return cost.block_ps == 0 ||
         static_cast<uint64_t>(facts.gain_blocks) <=
             price_ns / cost.block_ps * 1000 + price_ns % cost.block_ps * 1000 / cost.block_ps;
}

}  // namespace megaflux
