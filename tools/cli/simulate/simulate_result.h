// What `megaflux simulate` found for one trace, and how it is shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/json_output.h"
#include "cli/simulate/simulate_options.h"
#include "cli/terminal.h"
#include "megaflux/trace/trace.h"
#include "simulate/owner_suggestion.h"
#include "simulate/sweep.h"

namespace megaflux::cli {

// Suggested owners against the default ones, over the cells that judge.
struct OwnerComparison {
  bool is_held_out = false;
  int64_t num_choosing = 0;  // cells
  int64_t num_judging = 0;
  std::vector<std::vector<int32_t>> owners;  // [L][E]
  // Mean imbalance without replicas over the choosing cells, of each layer: [L].
  std::vector<double> fitted_default;
  std::vector<double> fitted_suggested;
  std::vector<simulate::SweepRow> by_default;  // rows of the same settings
  std::vector<simulate::SweepRow> suggested;
};

struct TraceResult {
  std::string name;  // of the file
  TraceMeta meta;
  int64_t num_steps = 0;
  bool has_sources = false;
  int64_t num_cells = 0;
  int64_t history_interval = 0;
  std::vector<std::string> notes;  // what a reader has to know about these figures
  std::vector<simulate::SweepRow> rows;
  std::optional<OwnerComparison> owners;
};

// What the figures of this trace do not say by themselves.
std::vector<std::string> notes_on(const Trace& trace, const simulate::SweepConfig& config,
                                  const std::vector<simulate::Cell>& cells);

// The object of schema megaflux.simulate/1.
Json simulate_json(const SimulateOptions& options, const simulate::SweepConfig& config,
                   const std::vector<TraceResult>& results);
// The object of schema megaflux.owners/1.
Json owners_json(const TraceResult& result, int32_t num_ranks);

// For people, on standard output.
void print_simulation(const simulate::SweepConfig& config, const TraceResult& result);
void print_owner_comparison(const TextStyle& style, const OwnerComparison& owners);

}  // namespace megaflux::cli
