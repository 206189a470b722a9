// The options of `megaflux simulate`, and what they ask for of a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/plan/rival_options.h"
#include "megaflux/trace/trace.h"
#include "simulate/sweep.h"

namespace megaflux::cli {

struct SimulateOptions {
  std::vector<std::string> traces;
  std::string ranks = "8";
  std::string slots = "2";
  std::string planners = "all";
  std::string rows_per_rank = "0";
  int32_t block_rows = 128;
  std::string objective = "forward";
  int32_t lambda_blocks = 12;
  bool is_lambda_given = false;
  double slack = 0;
  RivalSettings rivals;
  std::string owners_file;
  std::string model;
  std::string passes;  // empty = both passes for the backward objective, else forward
  std::string machine = "h200";
  std::string layers;  // "0-3,7"; empty = all
  std::string steps;   // "0-99"; empty = all
  int64_t num_cases = 0;
  uint64_t seed = 1;
  int64_t history_interval = 0;
  int32_t num_threads = 0;  // 0 = as many as there are cores
  std::string suggest_file;
  std::string json_target;
};

void add_simulate_options(CLI::App& app, SimulateOptions& options);

// All that is wrong with the options alone, before any trace is read: throws kBadInput naming
// option, value and limit. What depends on E, as owners and --rival do, is left out.
simulate::SweepConfig sweep_config_of(const SimulateOptions& options);

// Adds what fits this trace alone: owners and --rival.
void fit_to_trace(const SimulateOptions& options, const Trace& trace,
                  simulate::SweepConfig& config);

std::vector<simulate::Cell> cells_of(const SimulateOptions& options, const Trace& trace);

}  // namespace megaflux::cli
