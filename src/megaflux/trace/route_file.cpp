#include "megaflux/trace/route_file.h"

#include <filesystem>

#include "megaflux/base/check.h"
#include "megaflux/trace/trace_file.h"

namespace megaflux {

std::string route_file_name(const RouteRequest& request) {
  std::string name = "route_";
  name.append(route_family_name(request.family))
      .append("_E" + std::to_string(request.num_experts))
      .append("_K" + std::to_string(request.topk))
      .append("_P" + std::to_string(request.num_ranks))
      .append("_T" + std::to_string(request.tokens_per_rank));
  if (request.seed != 1) name += "_seed" + std::to_string(request.seed);
  return name + ".npz";
}

Trace route_trace(const RouteRequest& request, const RouteSet& set, const TraceMeta& source) {
  const std::string family(route_family_name(request.family));
  const bool recorded = needs_recorded_counts(request.family);
  TraceData data;
  data.meta = {.num_experts = request.num_experts,
               .topk = request.topk,
               .num_ranks = request.num_ranks,
               .layers = {0},
               .model = "route family " + family + (recorded ? " of " + source.model : ""),
               .origin = (recorded ? source.origin + "; " : "") + "tokens drawn with seed " +
                         std::to_string(request.seed),
               .licence = source.licence};
  data.num_steps = 1;
  data.rank_offsets = {0};
  for (const Routing& part : set.routing) {
    data.topk_ids.insert(data.topk_ids.end(), part.topk_ids.begin(), part.topk_ids.end());
    data.topk_weights.insert(data.topk_weights.end(), part.topk_weights.begin(),
                             part.topk_weights.end());
    data.rank_offsets.push_back(data.rank_offsets.back() + part.num_tokens);
  }
  data.step_offsets = {0, data.rank_offsets.back()};
  return Trace(std::move(data), route_file_name(request));
}

std::string route_file(const std::string& folder, const RouteRequest& request,
                       const TraceMeta& source) {
  const Trace trace = route_trace(request, make_routes(request), source);
  const std::string path = (std::filesystem::path(folder) / route_file_name(request)).string();
  std::error_code ignored;  // a path that cannot be looked at: writing it says why
  if (!std::filesystem::exists(path, ignored)) {
    write_trace(path, trace, TracePacking::kStored);
    return path;
  }
  MF_CHECK(encode_trace(read_trace(path), TracePacking::kStored) ==
               encode_trace(trace, TracePacking::kStored),
           path,
           ": holds another routing than this request gives; remove it or name another folder");
  return path;
}

std::vector<int32_t> recorded_counts(const Trace& trace) {
  std::vector<int32_t> rows;
  for (int64_t step = 0; step < trace.num_steps(); ++step) {
    for (int32_t layer = 0; layer < trace.num_layers(); ++layer) {
      const LoadTable table = trace.loads(step, layer, 1);
      rows.insert(rows.end(), table.totals().begin(), table.totals().end());
    }
  }
  return rows;
}

}  // namespace megaflux
