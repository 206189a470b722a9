// The planner contract: LoadTable + PlanConfig (+ what is resident) -> Plan.
//
// Every planner of megaflux and every baseline answers to this one interface, and every plan passes
// the legality check of plan/legality.h before it is returned. Planning is integer arithmetic with
// fixed ties: the same inputs give the same bytes in every run, on every thread and machine,
// because every rank plans alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/baselines/baseline_config.h"
#include "megaflux/plan/cost_model.h"

namespace megaflux {

enum class PlannerKind : uint8_t {
  kMegaflux,
  kPaper,
  kQuota,
  kFixed,
  // The rivals, plan/baselines; all of them count rows.
  kUltraep,
  kEplb,
  kLplb,
  kLlep,
  kEcho,
  kMoonep,
  kBroadcast,
};
enum class Objective : uint8_t { kForward, kBackward, kCost };

std::string_view planner_name(PlannerKind kind);
std::string_view objective_name(Objective objective);
// All of them, in the order of the enum.
std::span<const std::string_view> planner_names();
// True for kUltraep and later.
bool is_baseline(PlannerKind kind);
// Throw kBadInput with the list of known names.
PlannerKind parse_planner(std::string_view name);
Objective parse_objective(std::string_view name);

// Everything but the counts that enters the decision; the same on every rank of a session.
struct PlanConfig {
  PlannerKind planner = PlannerKind::kMegaflux;
  Objective objective = Objective::kForward;
  PlanDims dims;  // quota and baselines plan with block_rows = 1 whatever dims.block_rows says
  int32_t lambda_blocks = 12;        // backward: blocks that one remote replica costs its owner
  int32_t slack_ppm = 0;             // accepted max load over tau, in millionths; 10000 = 0.01
  int32_t min_copy_blocks = 1;       // least blocks of a fresh replica
  int32_t min_rows_per_replica = 1;  // least rows of any replica
  int64_t min_forward_rows = 0;      // fewer rows in the step: fixed placement
  std::vector<int32_t> owner_of;     // [E]; empty = contiguous
  std::vector<int32_t> domain_of;    // [P] NVLink domain of each rank; empty = one domain
  std::vector<uint8_t> active;       // [P]; empty = all
  std::vector<int32_t> base_blocks;  // [P] blocks of other work; empty = none
  std::vector<uint16_t> speed;       // [P], 1024 = full; empty = all full
  // Needed by the cost objective and by every prediction in microseconds and bytes.
  std::optional<CostModel> cost;
  BaselineConfig baselines;  // enters the decisions of baselines only
};

// Throws kBadInput naming the field, the value and the limit.
void check_config(const PlanConfig& config);
// Hash of every field that enters the decision; exchanged between ranks.
uint64_t config_hash(const PlanConfig& config);

// Why the plan has (no) replicas.
enum class GateDecision : uint8_t {
  kNotAsked,   // the objective has no gate, or the planner never replicates
  kReplicate,  // replicas pay
  kFixed,      // searched, and fixed placement was predicted to be at least as good
  kPreGate,    // not even searched: no replica could have paid
  kFewRows,    // fewer rows than min_forward_rows
};
std::string_view gate_name(GateDecision decision);

// Outcome besides the plan itself.
struct PlanReport {
  // Experts with rows whose owner is inactive. Not empty = no legal plan; the plan is then left
  // empty.
  std::vector<int32_t> orphans;
  GateDecision gate = GateDecision::kNotAsked;
  int64_t tau = 0;  // lower bound of the finish time, in blocks; max over domains
  std::optional<uint64_t> predicted_ns;        // with a cost model
  std::optional<uint64_t> predicted_fixed_ns;  // with a cost model
  // Most replicas on a rank. Only baselines pass the s of the configuration; the plan then has
  // this many slots (docs/decisions/0005-placements-and-slot-budgets.md).
  int32_t slots_needed = 0;
  int32_t moved_owners = 0;  // eplb and lplb: experts that the plan gives another owner
  bool has_plan() const { return orphans.empty(); }
};

// Throws kUnsupported, naming planner, needed and given, if an executor with the slots and weights
// of `config` cannot run the plan: it needs more slots, or it moved owners.
void check_runs_as_configured(const PlanConfig& config, const PlanReport& report);

// The configuration that a planner's plan is legal under: `config` with the plan's own owner table
// and slots, which only baselines change.
PlanConfig config_as_planned(const PlanConfig& config, const Plan& plan);

class Planner {
 public:
  virtual ~Planner() = default;
  virtual const PlanConfig& config() const = 0;
  // Plans one step. `resident` is [P s], the expert each slot holds already (-1 = none), or empty.
  // `plan` and `report` are overwritten and their memory reused. Throws kBadInput if the loads do
  // not fit the config. One call at a time per planner; use one planner a thread.
  virtual void plan(const LoadTable& loads, std::span<const int32_t> resident, Plan& plan,
                    PlanReport& report) = 0;
};

// Checks the config and builds the planner; all scratch memory is allocated by its first calls.
// Baselines that pass the slot budget or move owners allocate whenever a plan needs more than the
// ones before it.
std::unique_ptr<Planner> make_planner(PlanConfig config);

}  // namespace megaflux
