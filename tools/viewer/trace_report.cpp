#include "viewer/trace_report.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/check.h"
#include "viewer/cell_columns.h"
#include "viewer/cell_reader.h"
#include "viewer/detail_choice.h"
#include "viewer/detail_table.h"

namespace megaflux::viewer {
namespace {

template <typename Number>
Json optional_json(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json setting_json(const ReportSetting& setting) {
  const PlanConfig& plan = setting.step.plan;
  Json json = {{"planner", planner_name(plan.planner)},
               {"objective", objective_name(plan.objective)},
               {"ranks", plan.dims.num_ranks},
               {"slots", plan.dims.replica_slots},
               {"block_rows", plan.dims.block_rows},
               {"slack", plan.slack_ppm / 1e6},
               {"passes", setting.scope == CostScope::kForward ? "forward" : "both"},
               {"rows_per_rank", setting.rows_per_rank},
               {"model_shape", nullptr},
               {"machine", nullptr}};
  if (const auto& shape = setting.step.shape) {
    const MachineModel& machine = setting.machine;
    json["model_shape"] = {{"name", setting.model ? setting.model->name : ""},
                           {"hidden", shape->hidden},
                           {"inter", shape->inter},
                           {"topk", shape->topk}};
    json["machine"] = {{"name", machine.name},
                       {"gflops", machine.gflops},
                       {"link_mb_per_s", machine.link_mb_per_s},
                       {"send_mb_per_s", machine.send_mb_per_s},
                       {"plan_ns", machine.plan_ns},
                       {"pre_gate_ns", machine.pre_gate_ns},
                       {"copy_latency_ns", machine.copy_latency_ns},
                       {"round_ns", machine.round_ns}};
  }
  return json;
}

Json head_json(const Trace& trace, const ReportSetting& setting) {
  const TraceMeta& meta = trace.meta();
  const bool has_sources = trace.loads(0, 0, setting.num_ranks()).has_sources();
  return {{"name", setting.name},
          {"model", meta.model},
          {"origin", meta.origin},
          {"licence", meta.licence},
          {"num_experts", meta.num_experts},
          {"topk", meta.topk},
          {"num_steps", trace.num_steps()},
          {"num_layers", trace.num_layers()},
          {"layers", meta.layers},
          {"first_step", meta.first_step},
          {"time_ordered", meta.time_ordered},
          {"has_sources", has_sources},
          {"recorded_ranks", meta.num_ranks},
          {"setting", setting_json(setting)},
          {"owner_of", setting.step.plan.owner_of}};
}

Json cells_json(const Trace& trace, CellColumns columns, ArrayBlob& blob) {
  Json json = Json::object();
  const auto add = [&](const char* name, auto& column) {
    if (!column.empty()) json[name] = blob.add(std::move(column));
  };
  add("rows", columns.rows);
  add("kappa", columns.kappa);
  add("imbalance_before", columns.imbalance_before);
  add("imbalance_after", columns.imbalance_after);
  add("tau_ratio", columns.tau_ratio);
  add("copies", columns.copies);
  add("churn", columns.churn);
  add("moved_rows", columns.moved_rows);
  add("moved_bytes", columns.moved_bytes);
  add("remote_before", columns.remote_before);
  add("remote_after", columns.remote_after);
  add("peak_before", columns.peak_before);
  add("peak_after", columns.peak_after);
  add("fixed_us", columns.fixed_us);
  add("planned_us", columns.planned_us);
  add("ideal_us", columns.ideal_us);
  add("second_ideal_us", columns.second_ideal_us);
  add("plan_us", columns.plan_us);
  std::vector<uint8_t> flags = trace.data().flags;
  if (std::any_of(flags.begin(), flags.end(), [](uint8_t flag) { return flag != 0; })) {
    add("flags", flags);
  }
  return json;
}

// Cells that were asked for by layer and step.
std::vector<uint32_t> asked_cells(const Trace& trace, const ReportSetting& setting) {
  std::vector<uint32_t> cells;
  for (const CellPlace& place : setting.asked) {
    MF_CHECK(place.layer_idx < trace.num_layers(), "--detail: layer index ", place.layer_idx,
             " is outside [0, ", trace.num_layers() - 1, "], the layers of ", setting.name);
    MF_CHECK(place.step < trace.num_steps(), "--detail: step ", place.step, " is outside [0, ",
             trace.num_steps() - 1, "], the steps of ", setting.name);
    cells.push_back(static_cast<uint32_t>(place.step * trace.num_layers() + place.layer_idx));
  }
  return cells;
}

// As many as there may be, or as fit.
DetailChoice affordable_details(const Trace& trace, const ReportSetting& setting,
                                const CellColumns& columns) {
  const std::vector<uint32_t> asked = asked_cells(trace, setting);
  DetailChoice choice =
      choose_details(columns.imbalance_before, columns.imbalance_after, kMaxDetails, asked);
  const int64_t cell_bytes = deflated_detail_bytes(trace, setting, choice.cells);
  const int64_t most = std::max<int64_t>(1, setting.detail_bytes / cell_bytes);
  if (most >= static_cast<int64_t>(choice.cells.size())) return choice;
  choice = choose_details(columns.imbalance_before, columns.imbalance_after,
                          std::min(most, kMaxDetails), asked);
  choice.text += ", fewer than " + std::to_string(kMaxDetails) + " since one takes " +
                 std::to_string((cell_bytes + 999) / 1000) + " kB";
  return choice;
}

Json details_json(const DetailChoice& choice, DetailTable table, ArrayBlob& blob) {
  Json json = {{"chosen", choice.text},
               {"max", kMaxDetails},
               {"cell", blob.add(choice.cells)},
               {"why", blob.add(choice.why)},
               {"expert_rows", blob.add(std::move(table.expert_rows))},
               {"rows_before", blob.add(std::move(table.rows_before))},
               {"rows_after", blob.add(std::move(table.rows_after))},
               {"instance_begin", blob.add(std::move(table.instance_begin))},
               {"instance_expert", blob.add(std::move(table.instance_expert))},
               {"instance_rank", blob.add(std::move(table.instance_rank))},
               {"instance_rows", blob.add(std::move(table.instance_rows))}};
  if (!table.traffic_before.empty()) {
    json["traffic_before"] = blob.add(std::move(table.traffic_before));
    json["traffic_after"] = blob.add(std::move(table.traffic_after));
  }
  return json;
}

// The mean of a distribution that may be missing.
Json mean_json(const std::optional<simulate::Distribution>& figures) {
  return figures ? Json(figures->mean) : Json(nullptr);
}

Json what_if_row_json(const WhatIfRow& row, bool has_times, int64_t expert_bytes) {
  const simulate::SweepRow& f = row.figures;
  return {{"planner", planner_name(f.planner.kind)},
          {"label", what_if_label(row)},
          {"ranks", f.num_ranks},
          {"slots", f.replica_slots},
          {"history", f.planner.by_history},
          {"imbalance",
           {{"median", f.imbalance.median},
            {"p90", f.imbalance.p90},
            {"p99", f.imbalance.p99},
            {"max", f.imbalance.max}}},
          {"copies", f.copies.mean},
          {"replicas", f.replicas.mean},
          {"moved_bytes", expert_bytes > 0 ? Json(f.copies.mean * static_cast<double>(expert_bytes))
                                           : Json(nullptr)},
          {"remote_rows", mean_json(f.remote_rows)},
          {"peak_rows", f.peak_rows.max},
          {"plan_us", has_times ? Json(f.plan_us.median) : Json(nullptr)},
          {"planned_us", mean_json(f.planned_us)},
          {"fixed_us", mean_json(f.fixed_us)},
          {"ideal_us", mean_json(f.ideal_us)},
          {"second_ideal_us", mean_json(f.second_ideal_us)},
          {"share_of_ideal", optional_json(f.share_of_ideal)},
          {"slots_needed", f.slots_needed},
          {"is_over_budget", f.is_over_budget},
          {"break_even_rows", optional_json(row.break_even_rows)},
          {"is_best", f.is_best}};
}

Json what_if_json(const WhatIfTable& table, const ReportSetting& setting) {
  const auto& shape = setting.step.shape;
  Json rows = Json::array();
  for (const WhatIfRow& row : table.rows) {
    rows.push_back(what_if_row_json(row, setting.has_times, shape ? shape->expert_bytes() : 0));
  }
  return {{"cells", table.num_cells}, {"text", table.text}, {"rows", std::move(rows)}};
}

std::optional<double> mean(const std::vector<float>& column) {
  if (column.empty()) return std::nullopt;
  return std::accumulate(column.begin(), column.end(), 0.0) / static_cast<double>(column.size());
}

TraceOverview overview_of(const CellColumns& columns) {
  std::vector<float> before = columns.imbalance_before;
  std::vector<float> after = columns.imbalance_after;
  const std::vector<float> copies(columns.copies.begin(), columns.copies.end());
  TraceOverview overview;
  overview.num_cells = static_cast<int64_t>(columns.rows.size());
  overview.imbalance_before = simulate::distribution_of(before);
  overview.imbalance_after = simulate::distribution_of(after);
  overview.copies = *mean(copies);
  overview.fixed_us = mean(columns.fixed_us);
  overview.planned_us = mean(columns.planned_us);
  overview.ideal_us = mean(columns.ideal_us);
  return overview;
}

}  // namespace

TraceReport report_trace(const Trace& trace, const ReportSetting& setting, ArrayBlob& blob) {
  const int64_t cells = num_cells(trace);
  MF_CHECK(cells <= kMaxCells, "TRACE: ", setting.name, ": ", trace.num_steps(), " steps x ",
           trace.num_layers(), " layers, at most ", kMaxCells, " in all fit a report");
  asked_cells(trace, setting);  // so that a mistake shows before any work
  CellColumns columns = plan_cells(trace, setting);
  TraceReport report{.json = head_json(trace, setting), .overview = overview_of(columns)};
  setting.progress("details", cells, cells);
  const DetailChoice choice = affordable_details(trace, setting, columns);
  report.overview.num_details = static_cast<int64_t>(choice.cells.size());
  report.overview.details_text = choice.text;
  report.json["cells"] = cells_json(trace, std::move(columns), blob);
  report.json["details"] = details_json(choice, plan_details(trace, setting, choice.cells), blob);
  setting.progress("what if", cells, cells);
  const WhatIfTable table = what_if(trace, setting);
  report.json["what_if"] = what_if_json(table, setting);
  for (const WhatIfRow& row : table.rows) {
    const simulate::SweepRow& figures = row.figures;
    if (figures.is_best && figures.num_ranks == setting.num_ranks()) report.overview.best = row;
  }
  return report;
}

}  // namespace megaflux::viewer
