#include "cli/bench/forward_memory.h"

#include <algorithm>

#include "cli/gpu/gpu_backend.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::cli {
namespace {

MegaConfig layer_of(const ForwardBenchCase& bench_case, const ForwardRun& run, int32_t rank_sms) {
  const PlanDims& dims = run.plan.dims;
  MegaConfig layer = {
      .shape = bench_case.shape,
      .num_ranks = dims.num_ranks,
      .most_owned = std::ranges::max(owned_experts(run.plan.owner_of, dims.num_ranks)),
      .replica_slots = dims.replica_slots,
      .pool_rows = bench_case.pool_rows,
      .num_sms = bench_case.num_sms,
      .lag_waves = bench_case.lag_waves};
  for (const Routing& of_rank : run.routing) {
    layer.max_tokens = std::max(layer.max_tokens, of_rank.num_tokens);
  }
  return resolve_config(layer, rank_sms);
}

// True if a run before the last one of `runs` answers `shares` with it.
template <typename Shares>
bool is_there(std::span<const ForwardRun> runs, Shares shares) {
  const ForwardRun& last = runs.back();
  return std::ranges::any_of(runs.first(runs.size() - 1),
                             [&](const ForwardRun& run) { return shares(run, last); });
}

}  // namespace

bool share_rig(const ForwardRun& a, const ForwardRun& b) {
  return a.routing.data() == b.routing.data() && config_hash(a.plan) == config_hash(b.plan);
}

bool share_weights(const ForwardRun& a, const ForwardRun& b) {
  return a.plan.owner_of == b.plan.owner_of;
}

DeviceNeeds forward_needs(const ForwardBenchCase& bench_case, size_t num_runs, int32_t device_sms) {
  const std::span<const int32_t> device_of = bench_case.device_of;
  const int32_t rank_sms = device_sms / most_hosted(device_of);
  DeviceNeeds needs(static_cast<size_t>(device_of.back()) + 1);
  for (size_t i = 0; i < num_runs; ++i) {
    const std::span<const ForwardRun> runs = std::span(bench_case.runs).first(i + 1);
    const ForwardRun& run = runs.back();
    if (!is_there(runs, share_weights)) {
      add_weights(bench_case.shape, run.plan.owner_of, device_of, needs);
    }
    if (is_there(runs, share_rig)) continue;
    add_session(layer_of(bench_case, run, rank_sms), run.plan, device_sms, device_of, needs);
  }
  return needs;
}

}  // namespace megaflux::cli
