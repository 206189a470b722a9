#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "cli/simulate/simulate_result.h"
#include "megaflux/plan/plan_stats.h"

namespace megaflux::cli {
namespace {

using simulate::Distribution;
using simulate::SweepRow;

// Samples are kept in fp32: six digits are what they are good for.
double rounded(double value) {
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json spread_json(const Distribution& d) {
  return {{"median", rounded(d.median)},
          {"p90", rounded(d.p90)},
          {"p99", rounded(d.p99)},
          {"max", rounded(d.max)},
          {"mean", rounded(d.mean)}};
}
Json spread_json(const std::optional<Distribution>& d) {
  return d ? spread_json(*d) : Json();
}

Json bytes_json(const std::optional<Distribution>& d, std::optional<double> bytes) {
  if (!d || !bytes) return Json();
  const auto whole = [&](double count) { return std::llround(count * *bytes); };
  return {{"median", whole(d->median)},
          {"p90", whole(d->p90)},
          {"p99", whole(d->p99)},
          {"max", whole(d->max)},
          {"mean", whole(d->mean)}};
}

Json share_json(const std::optional<double>& share) {
  return share ? Json(rounded(*share)) : Json();
}
Json count_json(const std::optional<int64_t>& count) {
  return count ? Json(*count) : Json();
}

// The balance of a load in the words of four systems.
Json balance_json(const Distribution& imbalance, double mean_balancedness) {
  return {{"imbalance", spread_json(imbalance)},
          {"balancedness",
           {{"mean", rounded(mean_balancedness)},
            {"worst", imbalance.max > 0 ? rounded(1 / imbalance.max) : 1}}}};
}

Json fixed_json(const SweepRow& row, std::optional<double> pair_bytes) {
  Json fixed = balance_json(row.imbalance_fixed, row.mean_balancedness_fixed);
  fixed["remote_rows"] = spread_json(row.remote_rows_fixed);
  fixed["pair_rows"] = spread_json(row.pair_rows_fixed);
  fixed["pair_bytes"] = bytes_json(row.pair_rows_fixed, pair_bytes);
  fixed["peak_rows"] = spread_json(row.peak_rows_fixed);
  fixed["layer_us"] = spread_json(row.fixed_us);
  return fixed;
}

Json memory_json(const SweepRow& row) {
  if (!row.slot_bytes) return Json();
  return {{"slot_bytes", *row.slot_bytes},
          {"rank_bytes", *row.slot_memory_bytes},
          {"rank_bytes_without_sharing", *row.unshared_memory_bytes},
          {"saved_bytes", *row.unshared_memory_bytes - *row.slot_memory_bytes}};
}

Json layers_json(const SweepRow& row, const TraceMeta& meta) {
  Json layers = Json::array();
  for (const simulate::LayerBalance& layer : row.layers) {
    layers.push_back({{"layer_index", layer.layer_idx},
                      {"layer", meta.layers[layer.layer_idx]},
                      {"imbalance_fixed", spread_json(layer.imbalance_fixed)},
                      {"imbalance", spread_json(layer.imbalance)}});
  }
  return layers;
}

Json row_json(const SweepRow& row, const TraceMeta& meta, std::optional<double> pair_bytes) {
  Json json = {{"planner", variant_name(row.planner)},
               {"ranks", row.num_ranks},
               {"slots", row.replica_slots},
               {"rows_per_rank", row.rows_per_rank},
               {"cells", row.num_cells},
               {"best", row.is_best},
               {"slots_needed", row.slots_needed},
               {"over_budget", row.is_over_budget},
               {"moves_owners", row.moves_owners},
               {"total_rows", spread_json(row.total_rows)},
               {"kappa", spread_json(row.kappa)},
               {"maxvio", spread_json(row.max_violation)},
               {"fixed", fixed_json(row, pair_bytes)}};
  json.update(balance_json(row.imbalance, row.mean_balancedness));
  json["replicas"] = spread_json(row.replicas);
  json["copies"] = spread_json(row.copies);
  const std::optional<double> slot_bytes = row.slot_bytes;
  json["moved_bytes"] = bytes_json(row.copies, slot_bytes);
  json["moved_rows"] = spread_json(row.moved_rows);
  json["remote_rows"] = spread_json(row.remote_rows);
  json["pair_rows"] = spread_json(row.pair_rows);
  json["pair_bytes"] = bytes_json(row.pair_rows, pair_bytes);
  json["peak_rows"] = spread_json(row.peak_rows);
  json["plan_us"] = spread_json(row.plan_us);
  json["layer_us"] = spread_json(row.planned_us);
  json["ideal_us"] = spread_json(row.ideal_us);
  json["second_ideal_us"] = spread_json(row.second_ideal_us);
  json["speedup"] = share_json(row.speedup);
  json["share_of_ideal"] = share_json(row.share_of_ideal);
  json["share_of_second_ideal"] = share_json(row.share_of_second_ideal);
  json["break_even_rows"] = count_json(row.break_even_rows);
  json["memory"] = memory_json(row);
  json["history"] = row.planner.by_history ? Json{{"cells_before_first", row.cells_before_history},
                                                  {"placements", row.num_placements}}
                                           : Json();
  json["layers"] = layers_json(row, meta);
  return json;
}

// Mean imbalance and copies of both owner tables, planner by planner.
Json comparison_json(const OwnerComparison& owners) {
  Json rows = Json::array();
  const auto side = [](const SweepRow& row) {
    const std::optional<double> slot_bytes = row.slot_bytes;
    return Json{{"imbalance", spread_json(row.imbalance)},
                {"copies", spread_json(row.copies)},
                {"moved_bytes", bytes_json(row.copies, slot_bytes)},
                {"layer_us", spread_json(row.planned_us)}};
  };
  for (size_t i = 0; i < owners.by_default.size(); ++i) {
    const SweepRow& row = owners.by_default[i];
    rows.push_back({{"planner", variant_name(row.planner)},
                    {"slots", row.replica_slots},
                    {"rows_per_rank", row.rows_per_rank},
                    {"default", side(row)},
                    {"suggested", side(owners.suggested[i])}});
  }
  return {{"held_out", owners.is_held_out},
          {"cells_choosing", owners.num_choosing},
          {"cells_judging", owners.num_judging},
          {"rows", rows}};
}

Json trace_json(const TraceResult& result, std::optional<double> pair_bytes) {
  const TraceMeta& meta = result.meta;
  Json rows = Json::array();
  for (const SweepRow& row : result.rows) rows.push_back(row_json(row, meta, pair_bytes));
  return {{"name", result.name},
          {"model", meta.model},
          {"num_experts", meta.num_experts},
          {"topk", meta.topk},
          {"steps", result.num_steps},
          {"layers", meta.layers},
          {"time_ordered", meta.time_ordered},
          {"has_sources", result.has_sources},
          {"cells", result.num_cells},
          {"history_interval", result.history_interval},
          {"notes", result.notes},
          {"rows", rows},
          {"owners", result.owners ? comparison_json(*result.owners) : Json()}};
}

}  // namespace

Json simulate_json(const SimulateOptions& options, const simulate::SweepConfig& config,
                   const std::vector<TraceResult>& results) {
  std::optional<double> pair_bytes;
  Json model, machine;
  if (config.model) {
    const simulate::ModelShape& shape = *config.model;
    const TransferSizes sizes = forward_sizes(shape_for(shape, 1, 1));
    pair_bytes = static_cast<double>(sizes.dispatch_row + sizes.combine_row);
    model = {{"name", shape.name},
             {"hidden", shape.hidden},
             {"inter", shape.inter},
             {"topk", shape.topk},
             {"num_experts", shape.num_experts > 0 ? Json(shape.num_experts) : Json()}};
    machine = {{"name", config.machine.name},
               {"gflops", config.machine.gflops},
               {"link_mb_per_s", config.machine.link_mb_per_s},
               {"send_mb_per_s", config.machine.send_mb_per_s}};
  }
  Json traces = Json::array();
  for (const TraceResult& result : results) traces.push_back(trace_json(result, pair_bytes));
  return {{"schema", "megaflux.simulate/1"},
          {"version", MF_VERSION},
          {"objective", options.objective},
          {"block_rows", options.block_rows},
          {"slack", options.slack},
          {"passes", config.scope == CostScope::kForward ? "forward" : "both"},
          {"model", model},
          {"machine", machine},
          {"threads", config.num_threads},
          {"traces", traces}};
}

Json owners_json(const TraceResult& result, int32_t num_ranks) {
  const OwnerComparison& owners = *result.owners;
  Json layers = Json::array();
  for (size_t i = 0; i < owners.owners.size(); ++i) {
    layers.push_back({{"layer_index", i},
                      {"layer", result.meta.layers[i]},
                      {"imbalance_default", rounded(owners.fitted_default[i])},
                      {"imbalance_suggested", rounded(owners.fitted_suggested[i])},
                      {"owner_of", owners.owners[i]}});
  }
  return {{"schema", "megaflux.owners/1"},
          {"trace", result.name},
          {"model", result.meta.model},
          {"num_experts", result.meta.num_experts},
          {"num_ranks", num_ranks},
          {"cells", owners.num_choosing},
          {"layers", layers}};
}

}  // namespace megaflux::cli
