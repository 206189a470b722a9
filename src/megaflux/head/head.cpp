#include "megaflux/head/head.h"

#include <algorithm>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/plan/legality.h"

namespace megaflux {
namespace {

GatherConfig gather_config(const HeadConfig& config) {
  return {.num_experts = config.plan.dims.num_experts,
          .topk = config.topk,
          .max_tokens = config.max_tokens};
}

// Of what enters the decision and is no configuration: what the slots hold, and a plan from
// outside.
uint64_t residency_hash(const HeadInput& input) {
  Hasher hasher;
  hasher.add(static_cast<uint32_t>(input.layer));
  hasher.add64(input.weight_version);
  hasher.add_span(input.resident);
  hasher.add_span(input.outside_plan);
  return hasher.value();
}

}  // namespace

uint64_t head_config_hash(const HeadConfig& config) {
  Hasher hasher;
  hasher.add64(config_hash(config.plan));
  hasher.add(static_cast<uint32_t>(config.topk));
  hasher.add(static_cast<uint32_t>(config.max_tokens));
  hasher.add64(config.session_hash);
  return hasher.value();
}

int64_t max_step_rows(const HeadConfig& config) {
  const int64_t tokens = int64_t{config.plan.dims.num_ranks} * config.max_tokens;
  return std::clamp<int64_t>(tokens * config.topk, 1, INT32_MAX);
}

int32_t head_payload_words(const HeadConfig& config) {
  return config.plan.dims.num_experts;
}

RouteFields add_head_fields(Layout& layout, const HeadConfig& config) {
  check_gather_config(gather_config(config));
  return add_route_fields(layout, config.plan.dims.num_experts, config.topk, config.max_tokens);
}

Head::Head(HeadConfig config, const RouteFields& routes)
    : Head(config, routes, make_planner(config.plan)) {}

Head::Head(HeadConfig config, const RouteFields& routes, std::unique_ptr<Planner> planner)
    : config_(std::move(config)),
      config_hash_(head_config_hash(config_)),
      gatherer_(gather_config(config_), routes, config_.plan.dims.num_ranks),
      planner_(std::move(planner)) {}

void Head::step(RankContext& ctx, const HeadInput& input) {
  MF_CHECK(ctx.num_ranks == config_.plan.dims.num_ranks, "head: made for ",
           config_.plan.dims.num_ranks, " ranks, the group has ", ctx.num_ranks);
  const EntryWords words = {.op = LaunchOp::kHead,
                            .layer = input.layer,
                            .plan_hash = residency_hash(input),
                            .config_hash = config_hash_};
  gatherer_.gather(ctx, words, input.routing);
  try {
    decide(input);
  } catch (const Error& error) {
    throw AgreedError(error.code(), error.what());  // equal inputs, so every rank comes here
  }
  if (report_.has_plan()) {
    work_.assign(plan_, loads(), ctx.rank, input.order);
  } else {
    work_ = WorkList();
  }
}

void Head::decide(const HeadInput& input) {
  if (input.outside_plan.empty()) {
    planner_->plan(loads(), input.resident, plan_, report_);
    check_runs_as_configured(planner_->config(), report_);
    return;
  }
  plan_ = adopt_plan(input.outside_plan, loads(), planner_->config(), input.resident);
  report_ = PlanReport();
}

}  // namespace megaflux
