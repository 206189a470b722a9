#include "cli/run/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "megaflux/plan/legality.h"

namespace megaflux::cli {
namespace {

// Largest accepted relative errors against the reference.
struct Tolerances {
  double y;
  double dx;
  double dp;
  double dw;
};

Tolerances tolerances(DType dtype) {
  // Two to four times what correct runs show over the route families; one lost row of a token shows
  // as 0.05 and more, a lost replica gradient as 0.1 and more.
  if (dtype == DType::kBf16) return {.y = 0.03, .dx = 0.03, .dp = 0.03, .dw = 0.02};
  return {.y = 1e-4, .dx = 1e-4, .dp = 1e-4, .dw = 1e-4};
}

Check finished(const Execution& execution) {
  return {.name = execution.name + "-finished",
          .what = "every rank reached the end before its deadline",
          .holds = execution.has_finished(),
          .detail = execution.failure};
}

Check legal(const Workload& workload, const PlanConfig& config, const Execution& execution) {
  const std::vector<std::string> violations = check_plan(execution.plan, workload.loads(), config);
  return {.name = execution.name + "-legal",
          .what = "the plan gives each block to one instance, within slots and domains",
          .holds = violations.empty(),
          .detail = violations.empty() ? "" : violations.front()};
}

bool is_from_outside(const Plan& plan) {
  return !plan.empty() && (plan.header().flags & kPlanFromOutside) != 0;
}

Check planned(const Execution& execution) {
  const std::string& difference = execution.gpu->plan_differs;
  return {.name = execution.name + "-plan",
          .what = "every head on a device planned byte for byte as the host",
          .holds = difference.empty(),
          .detail = difference};
}

Check rows(const Execution& execution) {
  Check check{.name = execution.name + "-rows",
              .what = "each rank computed the rows that the plan gives it",
              .holds = true};
  for (const StepReport* pass : {&execution.forward, &execution.backward}) {
    for (size_t rank = 0; rank < pass->ranks.size(); ++rank) {
      const int64_t computed = pass->ranks[rank].rows;
      const int64_t planned = execution.stats.load_rows[rank];
      if (computed == planned || !check.holds) continue;
      check.holds = false;
      check.detail =
          fmt::format("rank {} computed {} rows in the {}, the plan says {}", rank, computed,
                      pass == &execution.forward ? "forward" : "backward", planned);
    }
  }
  return check;
}

// The first difference between what moved in one pass and what the plan implies; empty = none.
std::string find_byte_difference(const StepReport& report, const std::vector<RankBytes>& planned,
                                 const char* pass) {
  for (size_t i = 0; i < planned.size(); ++i) {
    const auto rank = static_cast<int32_t>(i);
    const RankBytes& bytes = planned[i];
    const int64_t in[kNumTraffic] = {bytes.dispatch_in, bytes.combine_in, bytes.weights_in,
                                     bytes.gradients_in};
    const int64_t out[kNumTraffic] = {bytes.dispatch_out, bytes.combine_out, bytes.weights_out,
                                      bytes.gradients_out};
    constexpr const char* kNames[kNumTraffic] = {"dispatch", "combine", "weights", "gradients"};
    for (int32_t k = 0; k < kNumTraffic; ++k) {
      const auto kind = static_cast<Traffic>(k);
      if (report.bytes_in(kind, rank) != in[k] || report.bytes_out(kind, rank) != out[k]) {
        return fmt::format("{}, rank {}, {}: {} in and {} out moved, the plan says {} and {}", pass,
                           rank, kNames[k], report.bytes_in(kind, rank),
                           report.bytes_out(kind, rank), in[k], out[k]);
      }
    }
  }
  return {};
}

Check bytes(const Workload& workload, const Execution& execution) {
  const LayerShape& shape = workload.shape();
  std::string difference = find_byte_difference(
      execution.forward, bytes_per_rank(execution.plan, workload.loads(), forward_sizes(shape)),
      "forward");
  if (difference.empty() && execution.has_backward()) {
    const TransferSizes sizes =
        backward_sizes(shape, SavedInput::kPulledAgain, SlotWeights::kPulledAgain);
    difference = find_byte_difference(
        execution.backward, bytes_per_rank(execution.plan, workload.loads(), sizes), "backward");
  }
  return {.name = execution.name + "-bytes",
          .what = "bytes moved between ranks and into slots are those that the plan implies",
          .holds = difference.empty(),
          .detail = difference};
}

struct ErrorKind {
  const char* name;
  const char* what;
  double error;
  double limit;
};

void add_error_checks(const Execution& execution, const OutputErrors& errors,
                      const Tolerances& limits, std::vector<Check>& checks) {
  std::vector<ErrorKind> kinds = {{"y", "outputs", errors.y, limits.y}};
  if (execution.has_backward()) {
    kinds.push_back({"dx", "token gradients", errors.dx, limits.dx});
    kinds.push_back({"dp", "router gradients", errors.dp, limits.dp});
    kinds.push_back({"dw", "weight gradients", errors.dw, limits.dw});
  }
  for (const ErrorKind& kind : kinds) {
    const bool holds = kind.error <= kind.limit;
    checks.push_back({.name = fmt::format("{}-{}", execution.name, kind.name),
                      .what = fmt::format("{} against the reference", kind.what),
                      .holds = holds,
                      .value = kind.error,
                      .limit = kind.limit,
                      .detail = holds ? ""
                                      : fmt::format("largest relative error {:.3g}, at most {:.3g} "
                                                    "is accepted",
                                                    kind.error, kind.limit)});
  }
}

Check repeatable(const Execution& execution) {
  return {.name = execution.name + "-repeatable",
          .what = execution.has_backward()
                      ? "a second pass gives the same bits, weight gradients included"
                      : "a second pass gives the same bits",
          .holds = execution.is_repeatable,
          .detail = execution.is_repeatable ? "" : "two passes with equal inputs differ"};
}

// Elements whose bits differ between the two placements.
Check bitwise(const char* name, const std::string& what, int64_t element_bytes,
              const std::vector<Buffer>& fixed, const std::vector<Buffer>& replicated) {
  int64_t num_different = 0, num_elements = 0;
  for (size_t rank = 0; rank < fixed.size(); ++rank) {
    const std::byte* a = fixed[rank].data();
    const std::byte* b = replicated[rank].data();
    const auto bytes = static_cast<int64_t>(fixed[rank].size());
    for (int64_t i = 0; i < bytes; i += element_bytes) {
      num_different += std::memcmp(a + i, b + i, static_cast<size_t>(element_bytes)) != 0;
    }
    num_elements += bytes / element_bytes;
  }
  return {.name = name,
          .what = what + " with replicas bitwise equal to those without",
          .holds = num_different == 0,
          .value = static_cast<double>(num_different),
          .limit = 0.0,
          .detail = num_different == 0
                        ? ""
                        : fmt::format("{} of {} elements differ", num_different, num_elements)};
}

Check bf16_rounding(const RunOutcome& outcome) {
  const bool holds = outcome.fixed_errors.y > 0 && outcome.replicated_errors.y > 0;
  return {.name = "bf16-rounding",
          .what = "outputs carry the rounding of bf16",
          .holds = holds,
          .value = outcome.replicated_errors.y,
          .limit = 0.0,
          .detail = holds ? "" : "an error of exactly 0: nothing was computed in bf16"};
}

}  // namespace

std::vector<Check> run_checks(const Workload& workload, const RunOptions& options,
                              const RunOutcome& outcome) {
  std::vector<Check> checks;
  const LayerShape& shape = workload.shape();
  const PlanConfig config = plan_config_of(options.plan, shape.num_experts, shape.topk);
  for (const Execution* execution : {&outcome.fixed, &outcome.replicated}) {
    checks.push_back(finished(*execution));
    if (execution->gpu && !is_from_outside(execution->plan)) {
      checks.push_back(planned(*execution));
    }
    if (!execution->has_finished()) continue;
    // Fixed placement is executed with no slots.
    PlanConfig executed = config;
    executed.dims.replica_slots = execution->plan.dims().replica_slots;
    checks.push_back(legal(workload, executed, *execution));
    checks.push_back(rows(*execution));
    // Kernels count no bytes.
    if (!execution->gpu) checks.push_back(bytes(workload, *execution));
    if (execution->num_passes > 1) checks.push_back(repeatable(*execution));
  }
  if (!outcome.expected) return checks;
  const Tolerances limits = tolerances(shape.dtype);
  add_error_checks(outcome.fixed, outcome.fixed_errors, limits, checks);
  add_error_checks(outcome.replicated, outcome.replicated_errors, limits, checks);
  const int64_t element_bytes = dtype_bytes(shape.dtype);
  checks.push_back(bitwise("y-bitwise", "outputs", element_bytes, outcome.fixed.outputs.y,
                           outcome.replicated.outputs.y));
  if (outcome.replicated.has_backward()) {
    checks.push_back(bitwise("dx-bitwise", "token gradients", element_bytes,
                             outcome.fixed.outputs.dx, outcome.replicated.outputs.dx));
  }
  if (shape.dtype == DType::kBf16 && workload.loads().total_rows() > 0) {
    checks.push_back(bf16_rounding(outcome));
  }
  return checks;
}

bool all_hold(const std::vector<Check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

}  // namespace megaflux::cli
