// What the GPU benchmarks share: their command line and one line of bench/results.
//
// PROGRAM [--commit HASH] [--out FILE]; FILE is appended to, and results stand on the terminal too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megaflux::bench {

struct GpuOptions {
  std::string commit, out;
  std::string command;  // the whole command line, for the results
};

struct GpuResult {
  std::string figure;
  std::string unit;
  std::string case_key;  // as DESIGN orders its keys: op=copy,P=2,dir=one,ranks=real
  std::vector<double> samples;
};

double median_of(std::vector<double> samples);

// Prints the figure with its median, and appends its line if the options name a file. `device` is
// the one that the line names.
void report(const GpuOptions& options, const GpuResult& result, int32_t device = 0);

// main of a GPU benchmark: reads the options and runs it; 2 on bad input, 77 where no GPU is.
int run_gpu_benchmark(int argc, char** argv, void (*run)(const GpuOptions& options));

}  // namespace megaflux::bench
