#include "megaflux/head/gather_loads.h"

#include <algorithm>
#include <span>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux {

void check_gather_config(const GatherConfig& config) {
  MF_CHECK(config.num_experts >= 1 && config.num_experts <= kMaxExperts,
           "num_experts: ", config.num_experts, " is outside [1, ", kMaxExperts, "]");
  MF_CHECK(config.topk >= 1 && config.topk <= kMaxTopk, "topk: ", config.topk, " is outside [1, ",
           kMaxTopk, "]");
  MF_CHECK(config.max_tokens >= 0, "max_tokens: ", config.max_tokens, " is negative");
}

LoadGatherer::LoadGatherer(const GatherConfig& config, const RouteFields& routes, int32_t num_ranks)
    : config_(config), routes_(routes) {
  check_gather_config(config);
  const auto experts = static_cast<size_t>(config.num_experts);
  const auto pairs = static_cast<size_t>(config.max_tokens) * config.topk;
  MF_CHECK(routes.offsets.count == experts + 1 && routes.pairs.count == pairs &&
               routes.topk == config.topk,
           "routes: made for ", routes.offsets.count - 1, " experts, topk ", routes.topk, " and ",
           routes.pairs.count, " pairs; the head has ", config.num_experts, ", ", config.topk,
           " and ", pairs);
  rows_.resize(experts);
  table_.resize(experts * num_ranks);
  loads_.assign(num_ranks, config.num_experts, table_);
}

void LoadGatherer::check(const RankContext& ctx, const RoutingView& routing) const {
  MF_CHECK(routing.num_tokens <= config_.max_tokens, "rank ", ctx.rank, ": ", routing.num_tokens,
           " tokens exceed T_max = ", config_.max_tokens, " tokens a rank");
  MF_CHECK(routing.topk == config_.topk, "rank ", ctx.rank, ": topk: ", routing.topk,
           ", the session has ", config_.topk);
  check_routing(routing, ctx.rank, config_.num_experts);
}

const LoadTable& LoadGatherer::gather(RankContext& ctx, const EntryWords& words,
                                      const RoutingView& routing) {
  MF_INVARIANT(ctx.protocol.payload_words >= config_.num_experts, "an entry carries ",
               ctx.protocol.payload_words, " words, the counts need ", config_.num_experts);
  try {
    check(ctx, routing);
    count_rows(routing, rows_);
    const auto* const counts = reinterpret_cast<const uint32_t*>(rows_.data());
    post_entry(ctx, words, {counts, rows_.size()});
    // Nobody reads the list: every launch that did has ended. Peers see it after the next entry.
    build_route_list(routing, rows_, ctx.heap.span_of(ctx.rank, routes_.offsets),
                     ctx.heap.span_of(ctx.rank, routes_.pairs));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) throw;
    post_refusal(ctx, words, error.code(), error.what());
  }
  await_entries(ctx);
  for (int32_t peer = 0; peer < ctx.num_ranks; ++peer) {
    const auto counts = payload_of(ctx, peer).first(rows_.size());
    std::copy(counts.begin(), counts.end(), table_.begin() + peer * counts.size());
  }
  try {
    loads_.assign(ctx.num_ranks, config_.num_experts, table_);
  } catch (const Error& error) {
    throw AgreedError(error.code(), error.what());  // equal counts, so every rank comes here
  }
  return loads_;
}

}  // namespace megaflux
