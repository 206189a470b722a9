#include "cli/load_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/option_names.h"
#include "megaflux/base/check.h"
#include "megaflux/trace/load_csv.h"
#include "megaflux/trace/trace_file.h"
#include "simulate/case_sampler.h"

namespace megaflux::cli {
namespace {

LoadInput read_csv_step(const std::string& path, int32_t num_ranks) {
  return naming_argument(
      "LOADS", [&] { return LoadInput{.loads = read_load_csv(path, num_ranks), .origin = path}; });
}

LoadInput read_trace_step(const std::string& path, const TraceStep& where, int32_t num_ranks) {
  const Trace trace = open_trace("LOADS", path);
  const int32_t layer_idx = pick_layer(trace, std::max(where.layer, 0));
  const int32_t step = pick_step(trace, std::max(where.step, 0));
  return {.loads = trace.loads(step, layer_idx, num_ranks),
          .topk = trace.meta().topk,
          .origin = trace_place(trace, path, layer_idx, step)};
}

}  // namespace

Trace open_trace(const std::string& option, const std::string& path) {
  return naming_argument(option, [&] { return read_trace(path); });
}

int32_t pick_layer(const Trace& trace, int32_t layer_idx) {
  MF_CHECK(layer_idx < trace.num_layers(), "--layer: ", layer_idx, " is outside [0, ",
           trace.num_layers() - 1, "], the layer indices of the trace");
  return layer_idx;
}

int32_t pick_step(const Trace& trace, int32_t step) {
  MF_CHECK(step < trace.num_steps(), "--step: ", step, " is outside [0, ", trace.num_steps() - 1,
           "], the steps of the trace");
  return step;
}

std::string trace_place(const Trace& trace, const std::string& path, int32_t layer_idx,
                        int32_t step) {
  return fmt::format("{}, layer index {} (model layer {}), step {}",
                     std::filesystem::path(path).filename().string(), layer_idx,
                     trace.meta().layers[layer_idx], step);
}

LoadInput read_loads(const std::string& path, const TraceStep& where, int32_t num_ranks) {
  if (simulate::is_trace_path(path)) return read_trace_step(path, where, num_ranks);
  MF_CHECK(where.layer < 0, "--layer: ", where.layer, " needs a trace (.npz), ", path, " is none");
  MF_CHECK(where.step < 0, "--step: ", where.step, " needs a trace (.npz), ", path, " is none");
  return read_csv_step(path, num_ranks);
}

}  // namespace megaflux::cli
