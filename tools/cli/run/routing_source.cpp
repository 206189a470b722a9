#include "cli/run/routing_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/data_folder.h"
#include "cli/family_counts.h"
#include "cli/run/run_memory.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/route_family.h"

namespace megaflux::cli {
namespace {

constexpr auto kDefaultTrace = "esft_law.npz";
// Model layer 19 of the default trace: imbalance 2.32 on 8 ranks.
constexpr int32_t kDefaultLayer = 18;
constexpr int32_t kDefaultTokensPerRank = 1024;
constexpr int32_t kDefaultExperts = 64;
constexpr int32_t kDefaultTopk = 6;

int64_t num_tokens(const std::vector<Routing>& routing) {
  int64_t sum = 0;
  for (const Routing& rank : routing) sum += rank.num_tokens;
  return sum;
}

// Keeps the first tokens of every rank so that `wanted` remain, spread evenly.
void keep_tokens(std::vector<Routing>& routing, int64_t wanted) {
  const int64_t available = num_tokens(routing);
  MF_CHECK(wanted <= available, "--tokens: ", wanted, " is outside [0, ", available,
           "], the tokens of this step");
  int64_t seen = 0, kept = 0;
  for (Routing& rank : routing) {
    seen += rank.num_tokens;
    const int64_t kept_by_now = seen * wanted / std::max<int64_t>(available, 1);
    rank.num_tokens = static_cast<int32_t>(kept_by_now - kept);
    rank.topk_ids.resize(static_cast<size_t>(rank.num_tokens) * rank.topk);
    rank.topk_weights.resize(static_cast<size_t>(rank.num_tokens) * rank.topk);
    kept = kept_by_now;
  }
}

RoutingSource from_trace(const RunOptions& options) {
  const bool is_default = options.trace.empty();
  const std::string path = is_default ? data_folder() + "/" + kDefaultTrace : options.trace;
  const Trace trace = open_trace("--trace", path);
  const int32_t layer = pick_layer(trace, trace_layer(options));
  const int32_t step = pick_step(trace, std::max(options.where.step, 0));
  MF_CHECK(trace.meta().topk > 0, "--trace: ", path,
           " does not state K, which token-level routing needs");
  RoutingSource source{.routing = trace.routing(step, layer, options.plan.num_ranks, options.seed),
                       .num_experts = trace.meta().num_experts,
                       .topk = trace.meta().topk,
                       .origin = trace_place(trace, path, layer, step)};
  if (options.num_tokens > 0) keep_tokens(source.routing, options.num_tokens);
  return source;
}

RoutingSource from_family(const RunOptions& options) {
  const int32_t num_ranks = options.plan.num_ranks;
  RouteRequest request{
      .family = route_family_from_name(options.route),
      .num_experts = options.num_experts > 0 ? options.num_experts : kDefaultExperts,
      .topk = options.topk > 0 ? options.topk : kDefaultTopk,
      .num_ranks = num_ranks,
      .tokens_per_rank = kDefaultTokensPerRank,
      .seed = options.seed};
  if (options.num_tokens > 0) {
    MF_CHECK(options.num_tokens % num_ranks == 0, "--tokens: ", options.num_tokens,
             " is no multiple of --ranks ", num_ranks, ", as --route needs");
    request.tokens_per_rank = static_cast<int32_t>(options.num_tokens / num_ranks);
  }
  std::vector<int32_t> counts;
  if (needs_recorded_counts(request.family)) {
    counts = family_counts(options.route, request.num_experts, options.trace);
    request.recorded_counts = counts;
  }
  check_request(request);
  const int64_t pair_bytes = sizeof(int32_t) + sizeof(float);
  require_available("--tokens", num_ranks * pair_bytes * request.tokens_per_rank * request.topk,
                    "ids and routing weights");
  try {
    return {.routing = make_routes(request).routing,
            .num_experts = request.num_experts,
            .topk = request.topk,
            .origin = fmt::format("route family {}, seed {}", options.route, options.seed)};
  } catch (const Error& error) {
    throw Error(error.code(), std::string("--route: ") + error.what());
  }
}

}  // namespace

int32_t trace_layer(const RunOptions& options) {
  if (options.where.layer >= 0) return options.where.layer;
  return options.route.empty() && options.trace.empty() ? kDefaultLayer : 0;
}

RoutingSource make_routing(const RunOptions& options) {
  return options.route.empty() ? from_trace(options) : from_family(options);
}

}  // namespace megaflux::cli
