#include "viewer/detail_table.h"

#include <algorithm>
#include <memory>

#include "megaflux/base/math.h"
#include "megaflux/plan/plan_stats.h"
#include "simulate/parallel_items.h"
#include "viewer/cell_reader.h"
#include "viewer/history.h"
#include "viewer/packed_text.h"

namespace megaflux::viewer {
namespace {

// Cells that the size of all is estimated from, and the most bytes they may take meanwhile.
constexpr int64_t kSampleCells = 8;
constexpr int64_t kSampleBytes = int64_t{32} << 20;

struct InstanceList {
  std::vector<uint16_t> expert, rank;
  std::vector<uint32_t> rows;
};

InstanceList instances_with_rows(const Plan& plan, const LoadTable& loads) {
  InstanceList list;
  const PlanDims dims = plan.dims();
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    for (const Instance& instance : plan.instances_of(e)) {
      const int64_t rows =
          loads.rows_in_blocks(e, instance.first_block, instance.num_blocks, dims.block_rows);
      if (rows == 0) continue;
      list.expert.push_back(static_cast<uint16_t>(e));
      list.rank.push_back(static_cast<uint16_t>(instance.rank));
      list.rows.push_back(static_cast<uint32_t>(rows));
    }
  }
  return list;
}

PlanConfig fixed_config(PlanConfig config) {
  config.planner = PlannerKind::kFixed;
  config.objective = Objective::kForward;
  return config;
}

class DetailPlanner {
 public:
  DetailPlanner(const Trace& trace, const ReportSetting& setting, std::span<const uint32_t> cells)
      : trace_(trace),
        setting_(setting),
        history_(trace),
        cells_(cells),
        workers_(setting.num_threads),
        instances_(cells.size()),
        has_sources_(trace.loads(0, 0, setting.num_ranks()).has_sources()) {
    const size_t num_ranks = setting.num_ranks();
    table_.expert_rows.resize(cells.size() * trace.meta().num_experts);
    table_.rows_before.resize(cells.size() * num_ranks);
    table_.rows_after.resize(cells.size() * num_ranks);
    if (!has_sources_) return;
    table_.traffic_before.resize(cells.size() * num_ranks * num_ranks);
    table_.traffic_after.resize(cells.size() * num_ranks * num_ranks);
  }

  DetailTable run() {
    simulate::run_items(setting_.num_threads, static_cast<int64_t>(cells_.size()),
                        [&](int32_t worker, int64_t d) { plan_cell(workers_[worker], d); });
    table_.instance_begin.push_back(0);
    for (const InstanceList& list : instances_) {
      append(list.expert, table_.instance_expert);
      append(list.rank, table_.instance_rank);
      append(list.rows, table_.instance_rows);
      table_.instance_begin.push_back(static_cast<uint32_t>(table_.instance_rows.size()));
    }
    return std::move(table_);
  }

 private:
  struct Worker {
    std::unique_ptr<simulate::StepSimulator> simulator;
    std::unique_ptr<Planner> fixed;
    LoadTable loads;
    Plan fixed_plan;
    PlanReport fixed_report;
  };

  template <typename T>
  static void append(const std::vector<T>& values, std::vector<T>& all) {
    all.insert(all.end(), values.begin(), values.end());
  }

  // Row d of a [D, n] column.
  template <typename T>
  static void store(std::span<const T> values, int64_t d, std::vector<uint32_t>& column) {
    std::transform(values.begin(), values.end(),
                   column.begin() + d * static_cast<int64_t>(values.size()),
                   [](T value) { return static_cast<uint32_t>(value); });
  }

  void plan_cell(Worker& worker, int64_t d) {
    if (!worker.simulator) {
      worker.simulator = std::make_unique<simulate::StepSimulator>(setting_.step);
      worker.fixed = make_planner(fixed_config(setting_.step.plan));
    }
    read_cell(trace_, cells_[d], setting_.num_ranks(), setting_.rows_per_rank, worker.loads);
    if (simulate::has_history(setting_.step.plan.planner)) {
      history_.place(cells_[d], worker.loads, *worker.simulator);
    }
    worker.simulator->simulate(worker.loads);
    store(worker.loads.totals(), d, table_.expert_rows);
    store(worker.simulator->load_rows_fixed(), d, table_.rows_before);
    store(worker.simulator->load_rows(), d, table_.rows_after);
    const Plan& plan = worker.simulator->plan();
    instances_[d] = instances_with_rows(plan, worker.loads);
    if (!has_sources_) return;
    worker.fixed->plan(worker.loads, {}, worker.fixed_plan, worker.fixed_report);
    const auto before = traffic_rows(worker.fixed_plan, worker.loads);
    const auto after = traffic_rows(plan, worker.loads);
    store(std::span<const int64_t>(before), d, table_.traffic_before);
    store(std::span<const int64_t>(after), d, table_.traffic_after);
  }

  const Trace& trace_;
  const ReportSetting& setting_;
  const PlacementHistory history_;
  std::span<const uint32_t> cells_;
  std::vector<Worker> workers_;
  std::vector<InstanceList> instances_;
  bool has_sources_;
  DetailTable table_;
};

}  // namespace

DetailTable plan_details(const Trace& trace, const ReportSetting& setting,
                         std::span<const uint32_t> cells) {
  return DetailPlanner(trace, setting, cells).run();
}

int64_t deflated_detail_bytes(const Trace& trace, const ReportSetting& setting,
                              std::span<const uint32_t> cells) {
  const int64_t num_ranks = setting.num_ranks();
  const int64_t raw_bytes =
      4 * (trace.meta().num_experts + 2 * num_ranks + 2 * num_ranks * num_ranks);
  const int64_t wanted = std::clamp<int64_t>(kSampleBytes / raw_bytes, 1, kSampleCells);
  const auto num_cells = static_cast<int64_t>(cells.size());
  std::vector<uint32_t> sample;
  for (int64_t i = 0; i < std::min(wanted, num_cells); ++i) {
    sample.push_back(cells[i * num_cells / std::min(wanted, num_cells)]);
  }
  const DetailTable table = plan_details(trace, setting, sample);
  int64_t bytes = 0;
  Deflater deflater(
      [&](std::span<const std::byte> piece) { bytes += static_cast<int64_t>(piece.size()); });
  for (const auto* column : {&table.expert_rows, &table.rows_before, &table.rows_after,
                             &table.instance_rows, &table.traffic_before, &table.traffic_after}) {
    deflater.add(std::as_bytes(std::span(*column)));
  }
  for (const auto* column : {&table.instance_expert, &table.instance_rank}) {
    deflater.add(std::as_bytes(std::span(*column)));
  }
  deflater.finish();
  return ceil_div(bytes, static_cast<int64_t>(sample.size()));
}

}  // namespace megaflux::viewer
