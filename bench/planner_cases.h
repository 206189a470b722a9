// Load tables for the planner benchmarks, taken from real traces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "megaflux/moe/load_table.h"

namespace megaflux::bench {

// Counts of one batch and layer of a trace, [E].
struct PlannerCase {
  std::string file;
  int64_t index = 0;  // batch * layers + layer
  std::vector<int64_t> counts;
};

// Every trace (.npz) and *counts*.npy in `folder` with at least 16 experts, by file name; up to 120
// batch-layers a file, drawn with a fixed seed, those without rows left out. Axes are [batch,
// layer, expert] or [batch, layer, source, expert], whose sources are summed. Throws kBadInput with
// the file's name if one cannot be read.
std::vector<PlannerCase> read_planner_cases(const std::filesystem::path& folder);

// Scales the counts by largest remainder to exactly `rows_per_rank * num_ranks` rows.
LoadTable scaled_loads(const PlannerCase& trace_case, int32_t num_ranks, int64_t rows_per_rank);

// One line of bench/results; samples keep six significant digits.
struct Result {
  std::string figure;
  double value = 0;
  std::string unit;
  std::string case_key;
  std::vector<double> samples;
};
void append_result(const std::filesystem::path& file, const Result& result,
                   const std::string& commit, const std::string& command);

// What the planner benchmarks are told: PROGRAM TRACES [--details] [--commit HASH] [--out FILE].
struct Options {
  std::string folder;    // of recorded counts: .npz traces, or .npy arrays
  bool details = false;  // a line for each case that misses its bound
  std::string commit, out;
  std::string command;  // the whole command line, for the results
};

// main of a planner benchmark: reads the options and runs it; 2 on bad input.
int run_planner_benchmark(int argc, char** argv, void (*run)(const Options& options));

}  // namespace megaflux::bench
