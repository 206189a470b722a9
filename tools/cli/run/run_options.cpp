#include "cli/run/run_options.h"

#include <CLI/CLI.hpp>
#include "cli/gpu/gpu_backend.h"
#include "cli/options.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/route_family.h"
#include "megaflux/moe/work_list.h"

namespace megaflux::cli {
namespace {

constexpr int32_t kMaxRunRanks = 128;
constexpr int64_t kLeastCapacity = 2 * kTileRows;
// Below it one rounding to bf16 can be more than the accepted error of a token.
constexpr int32_t kLeastBf16Hidden = 16;

void add_routing_options(CLI::App& app, RunOptions& options) {
  constexpr auto kGroup = "Routing";
  add_file(app, "--trace", options.trace, "trace to take a step from; default: esft_law.npz")
      ->group(kGroup);
  add_integer(app, "--layer", options.where.layer, {0, 1 << 20},
              "index into the trace's layers; 18 for the default trace, else 0")
      ->default_str("")
      ->group(kGroup);
  add_integer(app, "--step", options.where.step, {0, INT32_MAX}, "step of the trace")
      ->default_str("0")
      ->group(kGroup);
  add_integer(app, "--tokens", options.num_tokens, {0, 1 << 26},
              "tokens over all ranks; 0 = all of the step, or 1024 a rank of a family")
      ->group(kGroup);
  add_choice(app, "--route", options.route, route_choices(),
             "generate a route family (below) instead of reading a trace")
      ->type_name("FAMILY")
      ->group(kGroup);
  add_integer(app, "--experts", options.num_experts, {1, 4096}, "E of a family")
      ->default_str("64")
      ->group(kGroup);
  add_integer(app, "--topk", options.topk, {1, 64}, "K of a family")
      ->default_str("6")
      ->group(kGroup);
  add_integer(app, "--seed", options.seed, {0, INT64_MAX}, "seed of everything that is drawn")
      ->group(kGroup);
}

void add_execution_options(CLI::App& app, RunOptions& options) {
  constexpr auto kGroup = "Execution";
  add_choice(app, "--backend", options.backend, {"cpu", "cuda"},
             "ranks as threads, or on GPUs, which do the forward so far")
      ->group(kGroup);
  add_integer(app, "--devices", options.num_devices, {1, 1024},
              "GPUs of --backend cuda, from ordinal 0 on, that the ranks are dealt to evenly")
      ->each([&options](const std::string&) { options.is_devices_given = true; })
      ->group(kGroup);
  app.add_flag("--backward", options.is_backward_asked, "forward and backward, the default")
      ->group(kGroup);
  app.add_flag("--forward-only", options.is_forward_only, "leave the backward pass out")
      ->group(kGroup);
  add_choice(app, "--z", options.z, {"saved", "recompute"},
             "keep Z for the backward pass, or compute it again")
      ->each([&options](const std::string&) { options.is_z_given = true; })
      ->group(kGroup);
  add_integer(app, "--capacity", options.capacity_rows, {0, INT32_MAX},
              "pool rows a rank, a multiple of 128; 0 = the default of the library")
      ->group(kGroup);
  add_file(app, "--plan", options.plan_file,
           "execute this plan (plan --plan-out) instead of planning")
      ->group(kGroup);
  add_choice(app, "--inject", options.fault, fault_choices(),
             "break the executor on purpose (faults below); the run must notice")
      ->type_name("FAULT")
      ->group(kGroup);
  add_decimal(
      app, "--deadline", options.deadline_seconds, 0, 3600,
      "seconds a rank waits for another before it gives up; 0 = 30 and more for large layers")
      ->group(kGroup);
}

// What the backends differ in.
void check_backend(const RunOptions& options) {
  MF_CHECK(options.is_on_gpu() || !options.is_devices_given, "--devices: ", options.num_devices,
           " is read by --backend cuda only, the backend is ", options.backend);
  if (!options.is_on_gpu()) return;
  constexpr auto kForwardAlone = "; --backend cuda does the forward alone so far";
  MF_CHECK(!options.is_backward_asked, "--backward: is for --backend cpu", kForwardAlone);
  MF_CHECK(options.plan.passes != "both",
           "--passes: both plans for forward and backward, and the backward on GPUs comes later",
           kForwardAlone);
  MF_CHECK(!options.is_z_given, "--z: ", options.z, " is for the backward of --backend cpu",
           kForwardAlone);
  MF_CHECK(options.fault != "skip-replica-gradient", "--inject: ", options.fault,
           " breaks the backward of --backend cpu", kForwardAlone);
  check_dealing(options.plan.num_ranks, options.num_devices);
}

}  // namespace

const Choices& route_choices() {
  static const Choices choices = [] {
    Choices names;
    for (int32_t i = 0; i < kNumRouteFamilies; ++i) {
      names.emplace_back(route_family_name(static_cast<RouteFamily>(i)));
    }
    return names;
  }();
  return choices;
}

const Choices& fault_choices() {
  static const Choices choices = {"stale-slot",   "drop-row",
                                  "swap-k-order", "skip-replica-gradient",
                                  "lost-flag",    "wrong-owner"};
  return choices;
}

void add_run_options(CLI::App& app, RunOptions& options) {
  options.plan.hidden = 256;
  options.plan.inter = 192;
  add_json(app, options.json_target);
  add_routing_options(app, options);
  add_planner_options(app, options.plan);
  add_table_options(app, options.plan);
  add_cost_options(app, options.plan);
  add_execution_options(app, options);
}

void check_combination(const RunOptions& options) {
  MF_CHECK(options.plan_file.empty() || !options.plan.is_planner_given,
           "--planner: ", options.plan.planner, " does not plan, --plan ", options.plan_file,
           " is executed");
  MF_CHECK(options.plan_file.empty() || options.plan.rivals.empty(),
           "--rival: ", options.plan.rivals.empty() ? "" : options.plan.rivals[0],
           " is not read, --plan ", options.plan_file, " is executed");
  check_plan_options(options.plan);
  MF_CHECK(options.plan.num_ranks <= kMaxRunRanks, "--ranks: ", options.plan.num_ranks,
           " is outside [1, ", kMaxRunRanks, "], the ranks of a run");
  check_backend(options);
  MF_CHECK(options.capacity_rows == 0 || options.capacity_rows >= kLeastCapacity,
           "--capacity: ", options.capacity_rows, " is below ", kLeastCapacity, ", two tiles of ",
           kTileRows, " rows");
  MF_CHECK(options.capacity_rows % kTileRows == 0, "--capacity: ", options.capacity_rows,
           " is no multiple of ", kTileRows);
  MF_CHECK(!options.is_backward_asked || !options.is_forward_only,
           "--forward-only: excludes --backward");
  MF_CHECK(options.plan.dtype != "bf16" || options.plan.hidden >= kLeastBf16Hidden,
           "--hidden: ", options.plan.hidden, " is below ", kLeastBf16Hidden,
           ", the least width at which bf16 can be checked; --dtype fp32 takes any");
  if (options.route.empty()) {
    MF_CHECK(options.num_experts == 0, "--experts: ", options.num_experts,
             " is for --route, a trace states its own");
    MF_CHECK(options.topk == 0, "--topk: ", options.topk,
             " is for --route, a trace states its own");
    return;
  }
  MF_CHECK(options.trace.empty() || needs_recorded_counts(route_family_from_name(options.route)),
           "--trace: ", options.trace, " is not read by --route ", options.route,
           ", only real-* families take counts from a trace");
  MF_CHECK(options.where.layer < 0, "--layer: ", options.where.layer,
           " picks from a trace, --route ", options.route, " generates");
  MF_CHECK(options.where.step < 0, "--step: ", options.where.step, " picks from a trace, --route ",
           options.route, " generates");
}

}  // namespace megaflux::cli
