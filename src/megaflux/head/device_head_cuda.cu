#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "megaflux/base/check_cuda.h"
#include "megaflux/head/device_head_cuda.h"

namespace megaflux {
namespace {

// At most fields.max_ctas.
int32_t ctas_per_rank(const DeviceHeadFields& fields, size_t num_local) {
  int device = 0, num_sms = 0;
  MF_CUDA(cudaGetDevice(&device));
  MF_CUDA(cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device));
  const int32_t share = num_sms / static_cast<int32_t>(num_local);
  MF_CHECK(share >= kMinHeadCtas, "ranks: ", num_local, " on a device of ", num_sms,
           " SMs, a head needs ", kMinHeadCtas, " SMs a rank");
  return std::min(share, fields.max_ctas);
}

HeadStatus* allocate_statuses(size_t count) {
  void* memory = nullptr;
  MF_CUDA(cudaHostAlloc(&memory, count * sizeof(HeadStatus),
                        cudaHostAllocPortable | cudaHostAllocMapped));
  return new (memory) HeadStatus[count];
}

void check_device_routing(const RoutingView& routing, int32_t rank, const HeadConfig& config) {
  MF_CHECK(routing.num_tokens >= 0, "rank ", rank, ": num_tokens: ", routing.num_tokens,
           " is negative");
  MF_CHECK(routing.num_tokens <= config.max_tokens, "rank ", rank, ": ", routing.num_tokens,
           " tokens exceed T_max = ", config.max_tokens, " tokens a rank");
  MF_CHECK(routing.topk == config.topk, "rank ", rank, ": topk: ", routing.topk,
           ", the session has ", config.topk);
  MF_CHECK(routing.num_tokens == 0 || routing.topk_ids != nullptr, "rank ", rank,
           ": topk_ids is null with ", routing.num_tokens, " tokens");
}

}  // namespace

DeviceHead::DeviceHead(const HeadConfig& config, const DeviceHeadFields& fields,
                       std::span<const int32_t> ranks)
    : config_(config),
      fields_(fields),
      ranks_(ranks.begin(), ranks.end()),
      told_(ranks.size()),
      statuses_(allocate_statuses(ranks.size())),
      config_hash_(head_config_hash(config)),
      plan_hash_(config_hash(config.plan)) {
  const PlanDims& dims = config.plan.dims;
  MF_CHECK(!ranks.empty() && ranks.size() <= kMaxLocalRanks, "ranks: ", ranks.size(),
           " on one device are outside [1, ", kMaxLocalRanks, "]");
  num_ctas_ = ctas_per_rank(fields, ranks.size());
  MF_CHECK(fields.loads.count == static_cast<size_t>(dims.num_ranks) * dims.num_experts &&
               fields.routes.topk == config.topk &&
               fields.routes.pairs.count == static_cast<size_t>(config.max_tokens) * config.topk &&
               fields.plan.count == PlanLayout(dims).total_bytes,
           "fields: made for another E, P, s, K or T_max than the head's ", dims.num_experts, ", ",
           dims.num_ranks, ", ", dims.replica_slots, ", ", config.topk, " and ", config.max_tokens);
}

DeviceHeadParams DeviceHead::params(std::span<const RoutingView> routings,
                                    const DeviceHeadStep& step) const {
  MF_CHECK(routings.size() == ranks_.size(), "routings: ", routings.size(),
           " given, the device has ", ranks_.size(), " ranks");
  const PlanDims& dims = config_.plan.dims;
  DeviceHeadParams params = {.fields = fields_,
                             .plan = PlanView::of(dims),
                             .num_experts = dims.num_experts,
                             .num_ranks = dims.num_ranks,
                             .num_slots = dims.num_ranks * dims.replica_slots,
                             .layer = step.layer,
                             .weight_version = step.weight_version,
                             .config_hash = config_hash_,
                             .resident = step.resident,
                             .order = step.order,
                             .statuses = statuses_.get()};
  for (size_t i = 0; i < routings.size(); ++i) {
    check_device_routing(routings[i], ranks_[i], config_);
    params.routings[i] = routings[i];
  }
  return params;
}

void DeviceHead::check() {
  bool has_too_many = false;  // told by every rank, and once by this
  for (size_t i = 0; i < ranks_.size(); ++i) {
    has_too_many |= std::exchange(statuses_.get()[i].too_many_rows, 0u) != 0;
  }
  MF_CHECK(!has_too_many,
           "loads: more rows in a step than the planner was made for (max_rows, at most ",
           std::numeric_limits<int32_t>::max(), ")");
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const int64_t dropped = statuses_.get()[i].dropped_total - told_[i];
    told_[i] += dropped;
    MF_CHECK(dropped == 0, "rank ", ranks_[i], ": ", dropped,
             " rows were dropped: topk_ids outside [-1, ", config_.plan.dims.num_experts, ")");
  }
}

}  // namespace megaflux
