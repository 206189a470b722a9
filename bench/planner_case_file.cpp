// Writes the cases of the planner benchmarks as a case file (case_file.h), for the GPU suite and
// plan_speed, which look for planner_cases.bin beside their programs.
//
//   planner_case_file TRACES --out FILE
#include "case_file.h"
#include "megaflux/base/check.h"
#include "planner_cases.h"

namespace megaflux::bench {
namespace {

void run(const Options& options) {
  MF_CHECK(!options.out.empty(), "--out: missing; it names the case file");
  CaseCounts counts;
  for (const PlannerCase& planner_case : read_planner_cases(options.folder)) {
    counts.push_back(planner_case.counts);
  }
  write_case_file(options.out, counts);
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  return megaflux::bench::run_planner_benchmark(argc, argv, megaflux::bench::run);
}
