#include "simulate/cell_samples.h"

#include <algorithm>

namespace megaflux::simulate {
namespace {

constexpr float kNull = -1;

template <typename Number>
float sample_of(const std::optional<Number>& value, double scale = 1) {
  return value ? static_cast<float>(static_cast<double>(*value) * scale) : kNull;
}

std::vector<float> without_nulls(std::vector<float> samples) {
  std::erase(samples, kNull);
  return samples;
}

Distribution spread_of(const std::vector<float>& samples) {
  std::vector<float> values = without_nulls(samples);
  return distribution_of(values);
}

std::optional<Distribution> spread_if_any(const std::vector<float>& samples) {
  std::vector<float> values = without_nulls(samples);
  if (values.empty()) return std::nullopt;
  return distribution_of(values);
}

// Mean of mean / max.
double balancedness_of(const std::vector<float>& imbalance) {
  double sum = 0;
  int64_t count = 0;
  for (const float value : imbalance) {
    if (value == kNull) continue;
    sum += 1 / static_cast<double>(value);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 1;
}

double max_violation_of(const LoadTable& loads) {
  const auto totals = loads.totals();
  if (loads.total_rows() == 0) return 0;
  const double mean = static_cast<double>(loads.total_rows()) / static_cast<double>(totals.size());
  return static_cast<double>(*std::max_element(totals.begin(), totals.end())) / mean - 1;
}

}  // namespace

LoadSamples::LoadSamples(size_t num_cells) {
  for (auto* column : {&total_rows, &kappa, &max_violation, &imbalance, &peak_rows, &remote_rows,
                       &pair_rows, &fixed_us, &ideal_us, &second_ideal_us}) {
    column->assign(num_cells, kNull);
  }
}

void LoadSamples::set(size_t cell, const LoadTable& loads, const StepFigures& figures) {
  if (!figures.has_plan) return;
  total_rows[cell] = static_cast<float>(figures.total_rows);
  kappa[cell] = static_cast<float>(figures.kappa);
  max_violation[cell] = static_cast<float>(max_violation_of(loads));
  imbalance[cell] = static_cast<float>(figures.imbalance_fixed);
  peak_rows[cell] = static_cast<float>(figures.peak_rows_fixed);
  remote_rows[cell] = sample_of(figures.remote_rows_fixed);
  pair_rows[cell] = sample_of(figures.pair_rows_fixed);
  fixed_us[cell] = sample_of(figures.fixed_ns, 1e-3);
  ideal_us[cell] = sample_of(figures.ideal_ns, 1e-3);
  second_ideal_us[cell] = sample_of(figures.second_ideal_ns, 1e-3);
}

void LoadSamples::summarise(SweepRow& row) const {
  row.total_rows = spread_of(total_rows);
  row.kappa = spread_of(kappa);
  row.max_violation = spread_of(max_violation);
  row.imbalance_fixed = spread_of(imbalance);
  row.mean_balancedness_fixed = balancedness_of(imbalance);
  row.peak_rows_fixed = spread_of(peak_rows);
  row.remote_rows_fixed = spread_if_any(remote_rows);
  row.pair_rows_fixed = spread_if_any(pair_rows);
  row.fixed_us = spread_if_any(fixed_us);
  row.ideal_us = spread_if_any(ideal_us);
  row.second_ideal_us = spread_if_any(second_ideal_us);
}

PlanSamples::PlanSamples(size_t num_cells) : slots_needed(num_cells, -1), moves_owners(num_cells) {
  for (auto* column : {&imbalance, &copies, &replicas, &moved_rows, &peak_rows, &plan_us,
                       &remote_rows, &pair_rows, &planned_us}) {
    column->assign(num_cells, kNull);
  }
}

void PlanSamples::set(size_t cell, const StepFigures& figures) {
  if (!figures.has_plan) return;
  imbalance[cell] = static_cast<float>(figures.imbalance);
  copies[cell] = static_cast<float>(figures.copies);
  replicas[cell] = static_cast<float>(figures.replicas);
  moved_rows[cell] = static_cast<float>(figures.moved_rows);
  peak_rows[cell] = static_cast<float>(figures.peak_rows);
  plan_us[cell] = static_cast<float>(figures.plan_us);
  remote_rows[cell] = sample_of(figures.remote_rows);
  pair_rows[cell] = sample_of(figures.pair_rows);
  planned_us[cell] = sample_of(figures.planned_ns, 1e-3);
  slots_needed[cell] = figures.slots_needed;
  moves_owners[cell] = figures.moved_owners > 0;
}

void PlanSamples::summarise(SweepRow& row) const {
  row.cells_without_plan = std::count(slots_needed.begin(), slots_needed.end(), -1);
  row.num_cells = static_cast<int64_t>(slots_needed.size()) - row.cells_without_plan;
  row.imbalance = spread_of(imbalance);
  row.mean_balancedness = balancedness_of(imbalance);
  row.copies = spread_of(copies);
  row.replicas = spread_of(replicas);
  row.moved_rows = spread_of(moved_rows);
  row.peak_rows = spread_of(peak_rows);
  row.plan_us = spread_of(plan_us);
  row.remote_rows = spread_if_any(remote_rows);
  row.pair_rows = spread_if_any(pair_rows);
  row.planned_us = spread_if_any(planned_us);
  row.slots_needed = std::max(0, *std::max_element(slots_needed.begin(), slots_needed.end()));
  row.moves_owners =
      !row.planner.by_history && std::count(moves_owners.begin(), moves_owners.end(), 1) > 0;
}

std::vector<LayerBalance> balance_by_layer(const std::vector<Cell>& cells, const LoadSamples& loads,
                                           const PlanSamples& plans) {
  std::vector<LayerBalance> layers;
  for (size_t begin = 0; begin < cells.size();) {
    size_t end = begin;
    while (end < cells.size() && cells[end].layer_idx == cells[begin].layer_idx) ++end;
    const auto slice = [begin, end](const std::vector<float>& column) {
      return spread_of({column.begin() + static_cast<std::ptrdiff_t>(begin),
                        column.begin() + static_cast<std::ptrdiff_t>(end)});
    };
    layers.push_back({.layer_idx = cells[begin].layer_idx,
                      .imbalance_fixed = slice(loads.imbalance),
                      .imbalance = slice(plans.imbalance)});
    begin = end;
  }
  return layers;
}

}  // namespace megaflux::simulate
