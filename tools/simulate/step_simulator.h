// StepSimulator: what one planner would do to one step of one layer, in figures.
//
// Example, P = 2, E = 2, s = 1, blocks of 1 row, rows {{6, 0}, {2, 0}}: fixed placement leaves all
// 8 rows on rank 0, imbalance_fixed 2, and source 1's two rows are remote, remote_rows_fixed 2. The
// plan copies expert 0 to rank 1 and gives it rows 4 to 7, two of either source: imbalance 1,
// copies 1, moved_rows 4, and now source 0's two of them are remote, remote_rows 2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/load_table.h"
#include "megaflux/moe/plan.h"
#include "megaflux/plan/planner.h"
#include "megaflux/plan/problem.h"

namespace megaflux::simulate {

// One planner under one set of numbers.
struct StepSetting {
  PlanConfig plan;  // predictions need plan.cost: make_cost_model of the shape and a machine
  std::optional<LayerShape> shape;
};

struct StepFigures {
  bool has_plan = false;  // false: rows for experts whose owner is inactive; no other figure counts
  int64_t total_rows = 0;
  double kappa = 1;
  // Rows a rank, max / mean over the active ranks; 1 without rows.
  double imbalance_fixed = 1;
  double imbalance = 1;
  int32_t replicas = 0;
  // Weights that this step moves: replicas and, if owners move, those. By a history: experts on
  // ranks where the placement before did not have them.
  int32_t copies = 0;
  int32_t slots_needed = 0;
  int32_t moved_owners = 0;
  int64_t moved_rows = 0;  // computed by replicas and by owners that moved
  // Most rows of a rank in tiles of 128, each part with tiles of its own.
  int64_t peak_rows = 0;
  int64_t peak_rows_fixed = 0;
  // Rows computed on another rank than their source; null without sources.
  std::optional<int64_t> remote_rows;
  std::optional<int64_t> remote_rows_fixed;
  // Most rows from one rank to another; null without sources.
  std::optional<int64_t> pair_rows;
  std::optional<int64_t> pair_rows_fixed;
  std::optional<int64_t> moved_bytes;  // of `copies`, in one pass; null without a shape
  double plan_us = 0;                  // host time of the planner call
  // Predicted time of the layer (plan/cost_model.h); null without plan.cost. Every planner's parts
  // are counted in whole blocks of the config, which is how they run. By a history no copies are
  // counted, the placement is there before the step, and for eplb no planning either.
  std::optional<uint64_t> planned_ns;
  std::optional<uint64_t> fixed_ns;  // without a planner
  // Perfectly balanced routing of as many rows, no replica, no planner.
  std::optional<uint64_t> ideal_ns;
  // The second ideal: rank loads equal, experts as routed, no copy, no planner: the bound tau.
  std::optional<uint64_t> second_ideal_ns;
};

// Not for several threads at once; make one a thread.
class StepSimulator {
 public:
  // Throws kBadInput like make_planner.
  explicit StepSimulator(StepSetting setting);
  StepSimulator(const StepSimulator&) = delete;
  StepSimulator& operator=(const StepSimulator&) = delete;

  // Valid until the next call. Throws kBadInput if the loads do not fit the config.
  const StepFigures& simulate(const LoadTable& loads);

  // Of the last call.
  const Plan& plan() const { return plan_; }
  const PlanReport& report() const { return report_; }
  std::span<const int64_t> load_rows() const { return load_rows_; }              // [P]
  std::span<const int64_t> load_rows_fixed() const { return load_rows_fixed_; }  // [P]

  // eplb and lplb: rows of earlier steps, [E]. The placement made from them holds until the next
  // call; without any call each step is placed from its own loads. The first placement is there
  // before the trace begins, and each later one charges the weights that it moves to the step that
  // follows it.
  void set_history(std::vector<int64_t> loads);
  // A step passes that nobody looks at: the copies that it is charged are returned, not charged to
  // the next one.
  int32_t pass_step();

 private:
  void start_planner();
  std::vector<int64_t> held_experts();
  bool is_history() const { return !config().baselines.history.empty(); }
  const PlanConfig& config() const { return setting_.plan; }
  void measure_fixed(const LoadTable& loads);
  void measure_plan(const LoadTable& loads);
  void measure_traffic(const LoadTable& loads);
  void predict(const LoadTable& loads);
  uint64_t slowest_ns(bool is_fixed);
  uint64_t ideal_ns(int64_t total_rows) const;
  double imbalance_of(std::span<const int64_t> rows) const;

  StepSetting setting_;
  ProblemBuilder builder_;  // in blocks of the config
  int64_t num_active_ = 0;
  std::unique_ptr<Planner> planner_;
  Plan plan_;
  PlanReport report_;
  StepFigures figures_;
  std::vector<int64_t> load_rows_, load_rows_fixed_;      // [P]
  std::vector<int64_t> padded_rows_, padded_rows_fixed_;  // [P]
  std::vector<int64_t> traffic_fixed_;                    // [P, P]
  std::vector<RankCost> costs_;                           // [P]
  std::vector<int64_t> held_;  // of a history: expert * P + rank, ascending
  int32_t placed_copies_ = 0;  // of a new history, to be charged to the next step
};

}  // namespace megaflux::simulate
