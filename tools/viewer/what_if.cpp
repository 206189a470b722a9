#include "viewer/what_if.h"

#include <algorithm>

#include "simulate/case_sampler.h"
#include "simulate/parallel_items.h"
#include "viewer/break_even.h"
#include "viewer/cell_reader.h"
#include "viewer/history.h"

namespace megaflux::viewer {
namespace {

constexpr uint64_t kSampleSeed = 1;
constexpr int64_t kBreakEvenCells = 4;

class WhatIf {
 public:
  WhatIf(const Trace& trace, const ReportSetting& setting) : trace_(trace), setting_(setting) {
    const WhatIfAxes& axes = setting.what_if;
    const auto num_rows =
        static_cast<int64_t>(axes.planners.size() * axes.ranks.size() * axes.slots.size());
    const int64_t wanted =
        std::clamp(kWhatIfPlans / std::max<int64_t>(num_rows, 1), kLeastSample, kMostSample);
    cells_ = simulate::select_cells(trace, {.num_cases = wanted, .seed = kSampleSeed});
  }

  WhatIfTable run() {
    WhatIfTable table{.num_cells = static_cast<int64_t>(cells_.size()), .text = text(), .rows = {}};
    for (simulate::SweepRow& row : simulate::sweep(trace_, cells_, sweep_config())) {
      if (row.planner.kind == PlannerKind::kFixed) {
        if (row.replica_slots != setting_.what_if.slots.front()) continue;
        row.replica_slots = 0;
      }
      row.layers.clear();
      table.rows.push_back({.figures = std::move(row), .break_even_rows = {}});
    }
    if (!setting_.step.shape) return table;
    simulate::run_items(setting_.num_threads, static_cast<int64_t>(table.rows.size()),
                        [&](int32_t, int64_t row) { find_break_even(table.rows[row]); });
    return table;
  }

 private:
  simulate::SweepConfig sweep_config() const {
    simulate::SweepConfig config;
    config.planners = setting_.what_if.planners;
    config.ranks = setting_.what_if.ranks;
    config.slots = setting_.what_if.slots;
    config.rows_per_rank = {setting_.rows_per_rank};
    config.plan = setting_.step.plan;
    config.plan.owner_of.clear();  // is for the report's own number of ranks
    config.model = setting_.model;
    config.machine = setting_.machine;
    config.scope = setting_.scope;
    config.num_threads = setting_.num_threads;
    return config;
  }

  void find_break_even(WhatIfRow& row) const {
    const simulate::SweepRow& figures = row.figures;
    if (figures.planner.kind == PlannerKind::kFixed) return;
    simulate::StepSetting step = setting_.step;
    step.plan.planner = figures.planner.kind;
    step.plan.dims.num_ranks = figures.num_ranks;
    step.plan.dims.replica_slots = figures.replica_slots;
    step.plan.owner_of.clear();
    simulate::StepSimulator simulator(std::move(step));
    row.break_even_rows = break_even_rows(simulator, break_even_cells(figures), trace_.meta().topk);
  }

  std::vector<BreakEvenCell> break_even_cells(const simulate::SweepRow& row) const {
    const PlacementHistory history(trace_);
    const auto sampled = static_cast<int64_t>(cells_.size());
    const int64_t wanted = std::min(kBreakEvenCells, sampled);
    std::vector<BreakEvenCell> chosen(wanted);
    for (int64_t i = 0; i < wanted; ++i) {
      const simulate::Cell& cell = cells_[i * sampled / wanted];
      trace_.read_loads(cell.step, cell.layer_idx, row.num_ranks, chosen[i].loads);
      if (!row.planner.by_history) continue;
      chosen[i].history = history.rows_for(cell.step * trace_.num_layers() + cell.layer_idx);
    }
    return chosen;
  }

  std::string text() const {
    const int64_t all = num_cells(trace_);
    const auto sampled = static_cast<int64_t>(cells_.size());
    if (sampled == all) return "all " + std::to_string(all) + " cells";
    return std::to_string(sampled) + " of " + std::to_string(all) + " cells, drawn with seed " +
           std::to_string(kSampleSeed);
  }

  const Trace& trace_;
  const ReportSetting& setting_;
  std::vector<simulate::Cell> cells_;
};

}  // namespace

WhatIfTable what_if(const Trace& trace, const ReportSetting& setting) {
  return WhatIf(trace, setting).run();
}

std::string what_if_label(const WhatIfRow& row) {
  const auto counted = [](int32_t count, const char* noun) {
    return ", " + std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
  };
  std::string label = simulate::variant_name(row.figures.planner);
  if (row.figures.planner.kind != PlannerKind::kFixed) {
    label += counted(row.figures.replica_slots, "slot");
  }
  return label + counted(row.figures.num_ranks, "rank");
}

}  // namespace megaflux::viewer
