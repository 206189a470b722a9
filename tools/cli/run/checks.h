// The checks of `megaflux run`, each with a name, a verdict and its numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run/execution.h"
#include "cli/run/expected.h"

namespace megaflux::cli {

struct Check {
  std::string name = {};  // "y-bitwise"; stable, tests and scripts rely on it
  std::string what = {};  // for people
  bool holds = false;
  std::optional<double> value = {};  // what was measured, where it is a number
  std::optional<double> limit = {};  // what it may be at most, or (bf16-rounding) must exceed
  std::string detail = {};           // why it does not hold
};

// What all checks look at.
struct RunOutcome {
  Execution fixed;
  Execution replicated;
  std::optional<Expected> expected;  // nullopt if an execution failed
  OutputErrors fixed_errors;
  OutputErrors replicated_errors;
};

// In the order in which they are shown. Where an execution did not finish, the checks that need its
// outputs are left out: "fixed-finished" or "replicated-finished" has failed then.
std::vector<Check> run_checks(const Workload& workload, const RunOptions& options,
                              const RunOutcome& outcome);

bool all_hold(const std::vector<Check>& checks);

}  // namespace megaflux::cli
