// The predicted time of rank r, all quantities non-negative integers, times in picoseconds:
//
//   compute  = finish_blocks * block
//   cover    = owned_blocks * block       weights arrive and partials are added while these run
//   incoming = copies_in * copy_in + replicas_out * gradient_in, + latency if copies_in
//   outgoing = copies_out * copy_out + replicas_in * gradient_out, + latency if copies_out
//   rounds   = ceil(load_blocks / pool_blocks)
//   rank     = max(compute + max(0, incoming - cover), outgoing) + max(0, rounds - 1) * round
//   layer    = max over ranks of rank, + plan
//
// What comes in delays the rank's own blocks unless owned blocks hide it; what goes out runs beside
// the rank's compute and only bounds it from below. What one replica takes is rounded up to whole
// picoseconds, a rank's time to nanoseconds. Products are taken in 128 bits; a time of one thing
// beyond 64 bits of picoseconds, and a rank's beyond 64 bits of nanoseconds, is the most there is,
// so predictions grow with every cost. Where no product can pass 64 bits (fits_in_64_bits), Number
// = uint64_t gives the same in far fewer instructions.
#pragma once

#include <algorithm>
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

// A CostModel as predictions take it, so that a rank's device multiplies and adds.
struct CostTimes {
  uint64_t block_ps = 0;
  uint64_t copy_in_ps = 0;  // weights of one replica into its host
  uint64_t copy_out_ps = 0;
  uint64_t gradient_in_ps = 0;  // of one replica into the owner
  uint64_t gradient_out_ps = 0;
  uint64_t latency_ps = 0;
  uint64_t round_ps = 0;
  uint64_t plan_ns = 0;
  uint64_t pre_gate_ns = 0;
  int64_t pool_blocks = 0;
};

// What leaves a rank a microsecond.
inline uint64_t send_rate(const CostModel& cost) {
  return cost.send_bytes_per_us > 0 ? cost.send_bytes_per_us : cost.link_bytes_per_us;
}

// The link's rate must not be 0.
inline CostTimes cost_times(const CostModel& cost) {
  const uint64_t link = cost.link_bytes_per_us, send = send_rate(cost);
  const auto ps = [](uint64_t bytes, uint64_t bytes_per_us) {
    return ceil_saturated(Wide(bytes) * 1'000'000, bytes_per_us);
  };
  return {.block_ps = cost.block_ps,
          .copy_in_ps = ps(cost.weight_bytes, link),
          .copy_out_ps = ps(cost.weight_bytes, send),
          .gradient_in_ps = ps(cost.gradient_bytes, link),
          .gradient_out_ps = ps(cost.gradient_bytes, send),
          .latency_ps = ceil_saturated(Wide(cost.copy_latency_ns) * 1000, 1),
          .round_ps = ceil_saturated(Wide(cost.round_ns) * 1000, 1),
          .plan_ns = cost.plan_ns,
          .pre_gate_ns = cost.pre_gate_ns,
          .pool_blocks = cost.pool_blocks};
}

// Do all products and sums of predictions stay below 2^64, in a domain of at most `blocks` blocks
// and `replicas` replicas? The pre-gate asks for one, slots or none.
inline bool fits_in_64_bits(const CostTimes& cost, uint64_t blocks, uint64_t replicas) {
  constexpr Wide kMost = Wide(1) << 60;
  const Wide replica_ps =
      Wide(cost.copy_in_ps) + cost.copy_out_ps + cost.gradient_in_ps + cost.gradient_out_ps;
  return Wide(blocks) * cost.block_ps <= kMost && Wide(blocks) * cost.round_ps <= kMost &&
         replica_ps * std::max<uint64_t>(replicas, 1) <= kMost && cost.latency_ps <= kMost &&
         (Wide(cost.plan_ns) + cost.pre_gate_ns) * 1000 <= kMost;
}

template <typename Number>
MF_HOST_DEVICE inline Number product_ps(int64_t count, uint64_t ps) {
  return Number(static_cast<uint64_t>(count)) * ps;
}

// Nanoseconds, rounded up.
MF_HOST_DEVICE inline uint64_t to_ns(Wide ps) {
  return ceil_saturated(ps, 1000);
}
MF_HOST_DEVICE inline uint64_t to_ns(uint64_t ps) {
  return ceil_div(ps, uint64_t{1000});
}

// How often a rank fills its pool again.
MF_HOST_DEVICE inline int64_t num_refills(const CostTimes& cost, int64_t load_blocks) {
  if (cost.pool_blocks == 0 || load_blocks <= cost.pool_blocks) return 0;
  return ceil_div(load_blocks, cost.pool_blocks) - 1;
}

// What comes in and is not hidden by owned blocks.
template <typename Number = Wide>
MF_HOST_DEVICE inline Number exposed_ps(const CostTimes& cost, const RankCost& rank) {
  const Number incoming = product_ps<Number>(rank.copies_in, cost.copy_in_ps) +
                          product_ps<Number>(rank.replicas_out, cost.gradient_in_ps) +
                          (rank.copies_in > 0 ? cost.latency_ps : 0);
  const Number cover = product_ps<Number>(rank.owned_blocks, cost.block_ps);
  return incoming > cover ? incoming - cover : 0;
}

// Predicted nanoseconds of one rank, without the planner's own time.
template <typename Number = Wide>
MF_HOST_DEVICE inline uint64_t rank_time_ns(const CostTimes& cost, const RankCost& rank) {
  const Number outgoing = product_ps<Number>(rank.copies_out, cost.copy_out_ps) +
                          product_ps<Number>(rank.replicas_in, cost.gradient_out_ps) +
                          (rank.copies_out > 0 ? cost.latency_ps : 0);
  const Number computing =
      product_ps<Number>(rank.finish_blocks, cost.block_ps) + exposed_ps<Number>(cost, rank);
  const Number busy = computing > outgoing ? computing : outgoing;
  const int64_t refills = num_refills(cost, rank.load_blocks);
  return to_ns(busy + product_ps<Number>(refills, cost.round_ps));
}

// By how much a search makes a head longer. The head itself runs in either case.
MF_HOST_DEVICE inline uint64_t search_ns(const CostTimes& cost) {
  return cost.plan_ns > cost.pre_gate_ns ? cost.plan_ns - cost.pre_gate_ns : 0;
}

// After a wave of searches that predicted `best_ns`: could another wave pay for its time? No plan
// finishes before tau.
template <typename Number = Wide>
MF_HOST_DEVICE inline bool another_wave_may_pay(const CostTimes& cost, uint64_t best_ns,
                                                int64_t tau) {
  const RankCost slowest = {.finish_blocks = tau};
  return best_ns > Number(rank_time_ns<Number>(cost, slowest)) + cost.plan_ns + search_ns(cost);
}

// What a pre-gate knows of a step, in blocks of the cost model.
struct PreGateFacts {
  int64_t gain_blocks = 0;    // largest finish of fixed placement above tau
  int64_t cover_blocks = 0;   // most owned blocks of a rank, rounded down
  int64_t most_blocks = 0;    // the same, rounded up: the largest load of fixed placement
  int64_t least_blocks = 0;   // some rank has so many under any plan
  bool copy_is_free = false;  // a slot holds an expert already, or ranks differ in speed or work
};

// Before any search: even if all ranks finished at tau, with as few rounds of their pools as that
// takes, would that pay for searching and for the copy that is hidden best, the one into the rank
// with most owned blocks? The copy counts as free where a slot holds an expert already, and where
// ranks differ in speed or other work: their cover is no longer a number of blocks, and a gate must
// not refuse what could pay.
template <typename Number = Wide>
MF_HOST_DEVICE inline bool pre_gate_refuses(const CostTimes& cost, const PreGateFacts& facts) {
  const RankCost host = {.owned_blocks = facts.cover_blocks, .copies_in = 1};
  const Number copy_ps = facts.copy_is_free ? 0 : exposed_ps<Number>(cost, host);
  const int64_t rounds =
      num_refills(cost, facts.most_blocks) - num_refills(cost, facts.least_blocks);
  return product_ps<Number>(facts.gain_blocks, cost.block_ps) +
             product_ps<Number>(rounds, cost.round_ps) <=
         Number(search_ns(cost)) * 1000 + copy_ps;
}

}  // namespace megaflux
