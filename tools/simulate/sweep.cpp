#include "simulate/sweep.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "megaflux/base/check.h"
#include "simulate/case_sampler.h"
#include "simulate/cell_samples.h"
#include "simulate/parallel_items.h"
#include "simulate/step_simulator.h"
#include "simulate/sweep_verdict.h"

namespace megaflux::simulate {
namespace {

constexpr int64_t kShippedInterval = 1000;
// Cells of one work item: enough to hide its cost, few enough to keep all threads busy.
constexpr size_t kItemCells = 64;

// One (ranks, rows_per_rank, slots).
struct Group {
  int32_t num_ranks = 0;
  int32_t replica_slots = 0;
  int64_t rows_per_rank = 0;
};

// Some cells of one layer, for all planners that see the step itself, or all cells of one layer for
// one planner by history.
struct Item {
  size_t first_cell = 0;
  size_t end_cell = 0;
  int32_t history_planner = -1;  // index into the planners; -1 = the others
};

// Counts plans done; speaks up after each item.
class ProgressCount {
 public:
  ProgressCount(const std::function<void(int64_t, int64_t)>& tell, int64_t total)
      : tell_(tell), total_(total) {}
  void add(int64_t plans) {
    if (!tell_) return;
    const std::lock_guard lock(mutex_);
    done_ += plans;
    tell_(done_, total_);
  }

 private:
  const std::function<void(int64_t, int64_t)>& tell_;
  const int64_t total_;
  std::mutex mutex_;
  int64_t done_ = 0;
};

class GroupSweep {
 public:
  GroupSweep(const Trace& trace, const std::vector<Cell>& cells, const SweepConfig& config,
             const Group& group, ProgressCount& progress)
      : trace_(trace),
        cells_(cells),
        config_(config),
        group_(group),
        progress_(progress),
        interval_(history_interval_of(trace, config)),
        loads_(cells.size()),
        plans_(config.planners.size(), PlanSamples(cells.size())),
        walks_(config.planners.size() * trace.num_layers()),
        workers_(std::max(1, config.num_threads)) {}

  void append_rows(std::vector<SweepRow>& rows) {
    const std::vector<Item> items = make_items();
    run_items(config_.num_threads, static_cast<int64_t>(items.size()),
              [&](int32_t worker, int64_t item) { work(worker, items[item]); });
    SweepRow shared;
    shared.num_ranks = group_.num_ranks;
    shared.replica_slots = group_.replica_slots;
    shared.rows_per_rank = group_.rows_per_rank;
    loads_.summarise(shared);
    for (size_t p = 0; p < config_.planners.size(); ++p) rows.push_back(row_of(p, shared));
  }

 private:
  // Simulators of one thread, for the layer that it works on where layers differ in their owners.
  struct Worker {
    int32_t layer_idx = -1;
    std::vector<std::unique_ptr<StepSimulator>> simulators;  // null: by history
  };

  // What a planner by history did to one layer, from the first to the last step looked at.
  struct Walk {
    int64_t steps = 0, placements = 0, copies = 0;
  };

  std::vector<Item> make_items() const {
    std::vector<Item> items;
    const auto layer_end = [this](size_t begin) {
      size_t end = begin;
      while (end < cells_.size() && cells_[end].layer_idx == cells_[begin].layer_idx) ++end;
      return end;
    };
    const auto is_exact = [](const PlannerVariant& planner) { return !planner.by_history; };
    const bool has_exact = std::any_of(config_.planners.begin(), config_.planners.end(), is_exact);
    for (size_t begin = 0; begin < cells_.size(); begin = layer_end(begin)) {
      const size_t end = layer_end(begin);
      for (size_t p = 0; p < config_.planners.size(); ++p) {
        if (!config_.planners[p].by_history) continue;
        items.push_back({begin, end, static_cast<int32_t>(p)});
      }
      for (size_t first = begin; has_exact && first < end; first += kItemCells) {
        items.push_back({first, std::min(end, first + kItemCells), -1});
      }
    }
    return items;
  }

  StepSetting setting_of(const PlannerVariant& planner, int32_t layer_idx) const {
    StepSetting setting;
    PlanConfig& plan = setting.plan;
    plan = config_.plan;
    plan.planner = planner.kind;
    plan.dims.num_experts = trace_.meta().num_experts;
    plan.dims.num_ranks = group_.num_ranks;
    plan.dims.replica_slots = group_.replica_slots;
    if (!config_.owners.empty()) plan.owner_of = config_.owners[layer_idx];
    plan.cost.reset();
    if (!config_.model) return setting;
    setting.shape = shape_for(*config_.model, plan.dims.num_experts, trace_.meta().topk);
    plan.cost =
        make_cost_model(config_.machine, *setting.shape, plan.dims.block_rows, config_.scope);
    return setting;
  }

  LoadTable loads_of(const Cell& cell) const {
    return scaled_loads(trace_.loads(cell.step, cell.layer_idx, group_.num_ranks),
                        trace_.meta().topk, group_.rows_per_rank);
  }

  void store(size_t planner, size_t cell, const LoadTable& loads, const StepFigures& figures) {
    if (planner == 0) loads_.set(cell, loads, figures);
    plans_[planner].set(cell, figures);
  }

  void work(int32_t worker_idx, const Item& item) {
    if (item.history_planner >= 0) {
      simulate_history(item);
    } else {
      simulate_steps(workers_[worker_idx], item);
    }
  }

  void simulate_steps(Worker& worker, const Item& item) {
    const int32_t layer_idx = cells_[item.first_cell].layer_idx;
    const bool is_other_layer = !config_.owners.empty() && worker.layer_idx != layer_idx;
    if (worker.simulators.empty() || is_other_layer)
      start(worker, layer_idx, loads_of(cells_[item.first_cell]));
    int64_t plans = 0;
    for (size_t cell = item.first_cell; cell < item.end_cell; ++cell) {
      const LoadTable loads = loads_of(cells_[cell]);
      for (size_t p = 0; p < worker.simulators.size(); ++p) {
        if (worker.simulators[p] == nullptr) continue;
        store(p, cell, loads, worker.simulators[p]->simulate(loads));
        ++plans;
      }
    }
    progress_.add(plans);
  }

  // The first call of a planner takes its memory; it is not timed.
  void start(Worker& worker, int32_t layer_idx, const LoadTable& loads) {
    worker.layer_idx = layer_idx;
    worker.simulators.clear();
    for (const PlannerVariant& planner : config_.planners) {
      worker.simulators.push_back(nullptr);
      if (planner.by_history) continue;
      worker.simulators.back() = std::make_unique<StepSimulator>(setting_of(planner, layer_idx));
      worker.simulators.back()->simulate(loads);
    }
  }

  // Walks the steps of one layer from the first one, whether they are looked at or not: what
  // happened in them is the history of later ones.
  void simulate_history(const Item& item) {
    const auto planner = static_cast<size_t>(item.history_planner);
    const int32_t layer_idx = cells_[item.first_cell].layer_idx;
    const int32_t num_experts = trace_.meta().num_experts;
    StepSimulator simulator(setting_of(config_.planners[planner], layer_idx));
    simulator.set_history(std::vector<int64_t>(num_experts, 1));
    std::vector<int64_t> recent(num_experts, 0);
    Walk& walk = walks_[planner * trace_.num_layers() + layer_idx];
    size_t cell = item.first_cell;
    const int64_t first_step = cells_[cell].step;
    for (int64_t step = 0; cell < item.end_cell; ++step) {
      if (step % interval_ == 0) {
        if (*std::max_element(recent.begin(), recent.end()) > 0) {
          simulator.set_history(recent);
          ++walk.placements;
        }
        std::fill(recent.begin(), recent.end(), 0);
      }
      if (cells_[cell].step == step) {
        const LoadTable loads = loads_of(cells_[cell]);
        const StepFigures& figures = simulator.simulate(loads);
        store(planner, cell, loads, figures);
        walk.copies += figures.copies;
        ++cell;
      } else if (const int32_t copies = simulator.pass_step(); step >= first_step) {
        walk.copies += copies;
      }
      walk.steps += step >= first_step;
      const LoadTable recorded = trace_.loads(step, layer_idx, 1);
      for (int32_t e = 0; e < num_experts; ++e) recent[e] += recorded.totals()[e];
    }
    progress_.add(static_cast<int64_t>(item.end_cell - item.first_cell));
  }

  SweepRow row_of(size_t planner, const SweepRow& shared) const {
    SweepRow row = shared;
    row.planner = config_.planners[planner];
    plans_[planner].summarise(row);
    row.layers = balance_by_layer(cells_, loads_, plans_[planner]);
    row.is_over_budget = row.slots_needed > row.replica_slots;
    if (row.planner.by_history) {
      row.cells_before_history = std::count_if(
          cells_.begin(), cells_.end(), [&](const Cell& cell) { return cell.step < interval_; });
      Walk all;
      for (int32_t layer = 0; layer < trace_.num_layers(); ++layer) {
        const Walk& walk = walks_[planner * trace_.num_layers() + layer];
        all.placements += walk.placements;
        all.copies += walk.copies;
        all.steps += walk.steps;
      }
      row.num_placements = all.placements;
      row.copies.mean = static_cast<double>(all.copies) / static_cast<double>(all.steps);
    }
    if (config_.model) {
      fill_memory(shape_for(*config_.model, trace_.meta().num_experts, trace_.meta().topk),
                  trace_.num_layers(), row);
    }
    fill_shares(row);
    return row;
  }

  const Trace& trace_;
  const std::vector<Cell>& cells_;
  const SweepConfig& config_;
  const Group group_;
  ProgressCount& progress_;
  const int64_t interval_;
  LoadSamples loads_;
  std::vector<PlanSamples> plans_;
  std::vector<Walk> walks_;  // [planner, layer]
  std::vector<Worker> workers_;
};

void check_sweep(const Trace& trace, const std::vector<Cell>& cells, const SweepConfig& config) {
  MF_CHECK(!cells.empty(), "cells: 0 steps and layers are selected, at least 1 is needed");
  MF_CHECK(!config.planners.empty() && !config.ranks.empty() && !config.slots.empty() &&
               !config.rows_per_rank.empty(),
           "sweep: planners, ranks, slots and rows_per_rank need at least one value each");
  MF_CHECK(config.num_threads >= 1, "num_threads: ", config.num_threads, " must be at least 1");
  if (config.owners.empty()) return;
  MF_CHECK(config.ranks.size() == 1, "owners: ", config.ranks.size(),
           " numbers of ranks, one table a layer is for one of them");
  MF_CHECK(config.owners.size() == static_cast<size_t>(trace.num_layers()),
           "owners: ", config.owners.size(), " tables for ", trace.num_layers(), " layers");
}

}  // namespace

std::vector<Cell> select_cells(const Trace& trace, const CellSelection& selection) {
  const int64_t end_step = selection.end_step < 0 ? trace.num_steps() : selection.end_step;
  MF_CHECK(
      selection.first_step >= 0 && selection.first_step < end_step && end_step <= trace.num_steps(),
      "steps: ", selection.first_step, " to ", end_step - 1, " are outside [0, ",
      trace.num_steps() - 1, "], the steps of the trace");
  std::vector<int32_t> layers = selection.layers;
  if (layers.empty()) {
    for (int32_t layer = 0; layer < trace.num_layers(); ++layer) layers.push_back(layer);
  }
  for (const int32_t layer : layers) {
    MF_CHECK(layer >= 0 && layer < trace.num_layers(), "layers: ", layer, " is outside [0, ",
             trace.num_layers() - 1, "], the layer indices of the trace");
  }
  const int64_t num_steps = end_step - selection.first_step;
  const int64_t count = static_cast<int64_t>(layers.size()) * num_steps;
  const int64_t wanted = selection.num_cases > 0 ? selection.num_cases : count;
  std::vector<Cell> cells;
  for (const int64_t place : draw_places(count, wanted, selection.seed)) {
    cells.push_back(
        {.layer_idx = layers[place / num_steps], .step = selection.first_step + place % num_steps});
  }
  return cells;
}

int64_t history_interval_of(const Trace& trace, const SweepConfig& config) {
  if (config.history_interval > 0) return config.history_interval;
  return std::clamp<int64_t>(trace.num_steps() / 4, 1, kShippedInterval);
}

std::vector<SweepRow> sweep(const Trace& trace, const std::vector<Cell>& cells,
                            const SweepConfig& config) {
  check_sweep(trace, cells, config);
  const auto total =
      static_cast<int64_t>(cells.size() * config.planners.size() * config.ranks.size() *
                           config.slots.size() * config.rows_per_rank.size());
  ProgressCount progress(config.on_progress, total);
  std::vector<SweepRow> rows;
  for (const int32_t num_ranks : config.ranks) {
    for (const int64_t rows_per_rank : config.rows_per_rank) {
      for (const int32_t slots : config.slots) {
        GroupSweep(trace, cells, config, {num_ranks, slots, rows_per_rank}, progress)
            .append_rows(rows);
      }
    }
  }
  mark_best(rows);
  fill_break_even(rows);
  return rows;
}

}  // namespace megaflux::simulate
