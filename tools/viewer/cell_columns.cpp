#include "viewer/cell_columns.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <optional>

#include "megaflux/base/check.h"
#include "megaflux/base/math.h"
#include "simulate/parallel_items.h"
#include "viewer/cell_reader.h"
#include "viewer/history.h"

namespace megaflux::viewer {
namespace {

using simulate::StepFigures;
using simulate::StepSimulator;

// Steps of one layer that one thread plans in a row. Long enough to find the layer's memory warm,
// short enough to keep all threads busy to the end.
constexpr int64_t kChunkSteps = 32;

// (expert, rank) of every instance away from its owner, ascending.
using Replicas = std::vector<uint64_t>;

void list_replicas(const Plan& plan, std::span<const int32_t> owner_of, Replicas& replicas) {
  replicas.clear();
  for (size_t e = 0; e < owner_of.size(); ++e) {
    for (const Instance& instance : plan.instances_of(static_cast<int32_t>(e))) {
      if (instance.rank != owner_of[e]) {
        replicas.push_back(uint64_t{e} << 32 | static_cast<uint32_t>(instance.rank));
      }
    }
  }
}

template <typename Narrow>
Narrow saturated(int64_t value, Narrow most = std::numeric_limits<Narrow>::max()) {
  return static_cast<Narrow>(std::min<int64_t>(value, most));
}

uint16_t churn_of(const Replicas& before, const Replicas& now) {
  const auto is_fresh = [&](uint64_t replica) {
    return !std::binary_search(before.begin(), before.end(), replica);
  };
  return saturated<uint16_t>(std::count_if(now.begin(), now.end(), is_fresh), kNoPreviousStep - 1);
}

float microseconds(std::optional<uint64_t> ns) {
  return static_cast<float>(static_cast<double>(*ns) / 1000);
}

// A measured time has no more than two digits that mean anything; what it has beyond that does not
// deflate.
float rounded_time(double value) {
  constexpr uint32_t kDropped = 14;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>(bits >> kDropped << kDropped);
}

class CellPlanner {
 public:
  CellPlanner(const Trace& trace, const ReportSetting& setting)
      : trace_(trace),
        setting_(setting),
        history_(trace),
        has_history_(simulate::has_history(setting.step.plan.planner)),
        chunk_steps_(has_history_ ? history_.interval() : kChunkSteps),
        workers_(setting.num_threads) {
    ends_.resize(ceil_div(trace.num_steps(), chunk_steps_) * trace.num_layers());
  }

  CellColumns run() {
    reserve_columns();
    std::atomic<int64_t> done = 0;
    simulate::run_items(setting_.num_threads, static_cast<int64_t>(ends_.size()),
                        [&](int32_t worker, int64_t chunk) {
                          done += plan_chunk(workers_[worker], chunk);
                          setting_.progress("planning", done, num_cells(trace_));
                        });
    if (trace_.meta().time_ordered) join_chunks();
    return std::move(columns_);
  }

 private:
  // Chunk k of layer l has the number k * L + l: neighbours in time are neighbours in memory.
  struct Ends {
    Replicas first, last;
  };
  struct Worker {
    std::unique_ptr<StepSimulator> simulator;
    LoadTable loads;
    Replicas before, now;
  };

  void reserve_columns() {
    const auto cells = static_cast<size_t>(num_cells(trace_));
    CellColumns& c = columns_;
    for (auto* column : {&c.kappa, &c.imbalance_before, &c.imbalance_after, &c.tau_ratio}) {
      column->resize(cells);
    }
    for (auto* column : {&c.rows, &c.moved_rows, &c.peak_before, &c.peak_after}) {
      column->resize(cells);
    }
    c.copies.resize(cells);
    if (trace_.meta().time_ordered) c.churn.assign(cells, kNoPreviousStep);
    if (has_sources()) {
      for (auto* column : {&c.remote_before, &c.remote_after}) column->resize(cells);
    }
    if (setting_.step.shape) c.moved_bytes.resize(cells);
    if (setting_.step.plan.cost) {
      for (auto* column : {&c.fixed_us, &c.planned_us, &c.ideal_us, &c.second_ideal_us}) {
        column->resize(cells);
      }
    }
    if (setting_.has_times) c.plan_us.resize(cells);
  }

  bool has_sources() const { return trace_.loads(0, 0, setting_.num_ranks()).has_sources(); }

  // Returns the number of its cells.
  int64_t plan_chunk(Worker& worker, int64_t chunk) {
    if (!worker.simulator) worker.simulator = std::make_unique<StepSimulator>(setting_.step);
    const int64_t num_layers = trace_.num_layers();
    const int64_t layer = chunk % num_layers;
    const int64_t first = chunk / num_layers * chunk_steps_;
    const int64_t last = std::min(first + chunk_steps_, trace_.num_steps());
    for (int64_t step = first; step < last; ++step) {
      const int64_t cell = step * num_layers + layer;
      read_cell(trace_, cell, setting_.num_ranks(), setting_.rows_per_rank, worker.loads);
      if (has_history_ && step == first) {
        history_.place(cell, worker.loads, *worker.simulator);
      }
      store(cell, worker.simulator->simulate(worker.loads), *worker.simulator);
      if (columns_.churn.empty()) continue;
      list_replicas(worker.simulator->plan(), setting_.step.plan.owner_of, worker.now);
      if (step == first) {
        ends_[chunk].first = worker.now;
      } else {
        columns_.churn[cell] = churn_of(worker.before, worker.now);
      }
      std::swap(worker.before, worker.now);
    }
    ends_[chunk].last = worker.before;
    return last - first;
  }

  void store(int64_t cell, const StepFigures& figures, const StepSimulator& simulator) {
    MF_INVARIANT(figures.has_plan, "cell ", cell, ": rows for an expert without an active owner");
    CellColumns& c = columns_;
    c.rows[cell] = saturated<uint32_t>(figures.total_rows);
    c.kappa[cell] = static_cast<float>(figures.kappa);
    c.imbalance_before[cell] = static_cast<float>(figures.imbalance_fixed);
    c.imbalance_after[cell] = static_cast<float>(figures.imbalance);
    const PlanReport& report = simulator.report();
    c.tau_ratio[cell] = report.tau == 0 ? 1
                                        : static_cast<float>(simulator.plan().header().max_blocks) /
                                              static_cast<float>(report.tau);
    c.copies[cell] = saturated<uint16_t>(figures.copies);
    c.moved_rows[cell] = saturated<uint32_t>(figures.moved_rows);
    c.peak_before[cell] = saturated<uint32_t>(figures.peak_rows_fixed);
    c.peak_after[cell] = saturated<uint32_t>(figures.peak_rows);
    if (!c.moved_bytes.empty()) c.moved_bytes[cell] = static_cast<float>(*figures.moved_bytes);
    if (!c.remote_before.empty()) {
      c.remote_before[cell] = saturated<uint32_t>(*figures.remote_rows_fixed);
      c.remote_after[cell] = saturated<uint32_t>(*figures.remote_rows);
    }
    if (!c.fixed_us.empty()) {
      c.fixed_us[cell] = microseconds(figures.fixed_ns);
      c.planned_us[cell] = microseconds(figures.planned_ns);
      c.ideal_us[cell] = microseconds(figures.ideal_ns);
      c.second_ideal_us[cell] = microseconds(figures.second_ideal_ns);
    }
    if (!c.plan_us.empty()) c.plan_us[cell] = rounded_time(figures.plan_us);
  }

  // The first step of a chunk follows the last one of the chunk before it.
  void join_chunks() {
    const int64_t num_layers = trace_.num_layers();
    for (int64_t chunk = num_layers; chunk < static_cast<int64_t>(ends_.size()); ++chunk) {
      const int64_t cell = chunk / num_layers * chunk_steps_ * num_layers + chunk % num_layers;
      columns_.churn[cell] = churn_of(ends_[chunk - num_layers].last, ends_[chunk].first);
    }
  }

  const Trace& trace_;
  const ReportSetting& setting_;
  const PlacementHistory history_;
  const bool has_history_;
  const int64_t chunk_steps_;  // a placement by history holds for one chunk
  std::vector<Worker> workers_;
  std::vector<Ends> ends_;
  CellColumns columns_;
};

}  // namespace

CellColumns plan_cells(const Trace& trace, const ReportSetting& setting) {
  return CellPlanner(trace, setting).run();
}

}  // namespace megaflux::viewer
