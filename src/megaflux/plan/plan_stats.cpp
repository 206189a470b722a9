#include "megaflux/plan/plan_stats.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/work_list.h"
#include "megaflux/plan/problem.h"

namespace megaflux {
namespace {

LoadSpread spread_of(std::span<const int64_t> load, std::span<const uint8_t> active) {
  const int64_t total = std::accumulate(load.begin(), load.end(), int64_t{0});
  const auto num_active = active.empty()
                              ? static_cast<int64_t>(load.size())
                              : std::count_if(active.begin(), active.end(),
                                              [](uint8_t is_active) { return is_active != 0; });
  LoadSpread spread;
  spread.max = *std::max_element(load.begin(), load.end());
  if (total == 0 || num_active == 0) return spread;
  spread.mean = static_cast<double>(total) / static_cast<double>(num_active);
  spread.imbalance = static_cast<double>(spread.max) / spread.mean;
  return spread;
}

// The config as the plan counts: owners listed, base work in the plan's blocks where a block of the
// config is no whole number of them.
PlanConfig config_for(const PlanConfig& config, int32_t block_rows) {
  PlanConfig own = config;
  if (own.owner_of.empty()) {
    own.owner_of = contiguous_owners(own.dims.num_experts, own.dims.num_ranks);
  }
  if (own.dims.block_rows % block_rows != 0) {
    for (int32_t& base : own.base_blocks) {
      const int64_t blocks = ceil_div(int64_t{base} * own.dims.block_rows, int64_t{block_rows});
      base = static_cast<int32_t>(std::min<int64_t>(blocks, std::numeric_limits<int32_t>::max()));
    }
    own.dims.block_rows = block_rows;
  }
  return own;
}

void fill_finish(const Plan& plan, const LoadTable& loads, const PlanConfig& config,
                 PlanStats& stats) {
  const int32_t block_rows = plan.dims().block_rows;
  const PlanConfig own = config_for(config, block_rows);
  ProblemBuilder builder(own, block_rows);
  MF_CHECK(builder.measure(loads), "plan: expert ", builder.orphans()[0],
           " has rows and an inactive owner");
  stats.finish.assign(plan.dims().num_ranks, 0);
  for (const DomainProblem& domain : builder.domains()) {
    stats.tau = std::max(stats.tau, domain.tau);
    for (int32_t r = 0; r < domain.num_ranks; ++r) {
      const int32_t rank = domain.ranks[r];
      stats.finish[rank] = domain.finish(r, static_cast<int32_t>(stats.load_blocks[rank]));
    }
  }
}

void check_match(const Plan& plan, const LoadTable& loads) {
  MF_CHECK(!plan.empty(), "plan: is empty");
  MF_CHECK(
      loads.num_experts() == plan.dims().num_experts && loads.num_ranks() == plan.dims().num_ranks,
      "loads: E ", loads.num_experts(), ", P ", loads.num_ranks(), " given, the plan has E ",
      plan.dims().num_experts, ", P ", plan.dims().num_ranks);
}

}  // namespace

PlanStats plan_stats(const Plan& plan, const LoadTable& loads, const PlanConfig& config) {
  check_match(plan, loads);
  const PlanDims dims = plan.dims();
  PlanStats stats;
  stats.load_blocks.assign(dims.num_ranks, 0);
  stats.load_rows.assign(dims.num_ranks, 0);
  stats.padded_rows.assign(dims.num_ranks, 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      const int64_t rows =
          loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, dims.block_rows);
      stats.load_blocks[instance.rank] += instance.num_blocks;
      stats.load_rows[instance.rank] += rows;
      stats.padded_rows[instance.rank] += round_up(rows, int64_t{kTileRows});
      if (instance.slot >= 0) stats.moved_blocks += instance.num_blocks;
    }
  }
  stats.blocks = spread_of(stats.load_blocks, config.active);
  stats.rows = spread_of(stats.load_rows, config.active);
  stats.peak_padded_rows = *std::max_element(stats.padded_rows.begin(), stats.padded_rows.end());
  stats.num_replicas = plan.num_replicas();
  stats.num_copies = plan.header().num_copies;
  fill_finish(plan, loads, config, stats);
  if (loads.has_sources()) {
    const std::vector<int64_t> traffic = traffic_rows(plan, loads);
    int64_t remote = loads.total_rows();
    for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
      remote -= traffic[static_cast<size_t>(rank) * dims.num_ranks + rank];
    }
    stats.remote_rows = remote;
  }
  return stats;
}

// Rows of an expert stand in source order and instances take them in rank order: one walk along
// both.
std::vector<int64_t> traffic_rows(const Plan& plan, const LoadTable& loads) {
  check_match(plan, loads);
  MF_CHECK(loads.has_sources(), "loads: totals without sources do not say where rows come from");
  const PlanDims dims = plan.dims();
  std::vector<int64_t> traffic(static_cast<size_t>(dims.num_ranks) * dims.num_ranks, 0);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    int32_t source = 0;
    int64_t left_of_source = loads.rows(0, e);
    for (const Instance& instance : plan.instances_of(e)) {
      int64_t left =
          loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, dims.block_rows);
      while (left > 0) {
        while (left_of_source == 0) left_of_source = loads.rows(++source, e);
        const int64_t rows = std::min(left, left_of_source);
        traffic[static_cast<size_t>(source) * dims.num_ranks + instance.rank] += rows;
        left -= rows;
        left_of_source -= rows;
      }
    }
  }
  return traffic;
}

TransferSizes forward_sizes(const LayerShape& shape) {
  const int64_t row_bytes = shape.hidden * dtype_bytes(shape.dtype);
  return {.dispatch_row = row_bytes,
          .combine_row = row_bytes,
          .replica = shape.expert_bytes(),
          .gradient = 0};
}

TransferSizes backward_sizes(const LayerShape& shape, SavedInput input, SlotWeights weights) {
  constexpr int64_t kRouterBytes = sizeof(float);
  const int64_t row_bytes = shape.hidden * dtype_bytes(shape.dtype);
  return {.dispatch_row =
              row_bytes + kRouterBytes + (input == SavedInput::kPulledAgain ? row_bytes : 0),
          .combine_row = row_bytes + kRouterBytes,
          .replica = weights == SlotWeights::kPulledAgain ? shape.expert_bytes() : 0,
          .gradient = shape.expert_gradient_bytes()};
}

RankBytes& RankBytes::operator+=(const RankBytes& other) {
  dispatch_in += other.dispatch_in;
  dispatch_out += other.dispatch_out;
  combine_in += other.combine_in;
  combine_out += other.combine_out;
  weights_in += other.weights_in;
  weights_out += other.weights_out;
  gradients_in += other.gradients_in;
  gradients_out += other.gradients_out;
  return *this;
}

std::vector<RankBytes> bytes_per_rank(const Plan& plan, const LoadTable& loads,
                                      const TransferSizes& sizes) {
  const std::vector<int64_t> traffic = traffic_rows(plan, loads);
  const PlanDims dims = plan.dims();
  std::vector<RankBytes> bytes(dims.num_ranks);
  for (int32_t source = 0; source < dims.num_ranks; ++source) {
    for (int32_t host = 0; host < dims.num_ranks; ++host) {
      if (source == host) continue;
      const int64_t rows = traffic[static_cast<size_t>(source) * dims.num_ranks + host];
      bytes[source].dispatch_out += rows * sizes.dispatch_row;
      bytes[host].dispatch_in += rows * sizes.dispatch_row;
      bytes[host].combine_out += rows * sizes.combine_row;
      bytes[source].combine_in += rows * sizes.combine_row;
    }
  }
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    const int32_t owner = plan.owner_of()[e];
    for (const Instance& instance : plan.instances_of(e)) {
      if (instance.slot < 0) continue;
      const size_t slot = static_cast<size_t>(instance.rank) * dims.replica_slots + instance.slot;
      if (plan.slot_resident()[slot] == 0) {
        bytes[owner].weights_out += sizes.replica;
        bytes[instance.rank].weights_in += sizes.replica;
      }
      if (instance.num_blocks > 0) {
        bytes[instance.rank].gradients_out += sizes.gradient;
        bytes[owner].gradients_in += sizes.gradient;
      }
    }
  }
  return bytes;
}

}  // namespace megaflux
