#include "cli/run/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/gpu/run_on_gpu.h"
#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::cli {
namespace {

constexpr double kSlowCpuFlops = 5e9;

SessionConfig session_config(const Workload& workload, const RunOptions& options,
                             const ExecutionTask& task) {
  SessionConfig config;
  config.shape = workload.shape();
  config.max_tokens = workload.max_tokens();
  config.plan = task.plan;
  config.pool_rows = options.capacity_rows;
  config.z_rows = options.z == "saved" ? -1 : 0;
  config.max_contexts = 1;
  config.waits.deadline = wait_deadline(workload, options, kSlowCpuFlops);
  return config;
}

void allocate(const Workload& workload, bool has_backward, LayerOutputs& outputs) {
  const LayerShape& shape = workload.shape();
  for (int32_t rank = 0; rank < workload.num_ranks(); ++rank) {
    const auto tokens = static_cast<size_t>(workload.routing()[rank].num_tokens);
    outputs.y.emplace_back(workload.x(rank).size());
    if (!has_backward) continue;
    outputs.dx.emplace_back(workload.x(rank).size());
    outputs.dp.emplace_back(tokens * static_cast<size_t>(shape.topk));
    const auto owned = static_cast<size_t>(workload.owned_experts(rank));
    outputs.dw1.emplace_back(owned * static_cast<size_t>(shape.w1_elements()));
    outputs.dw2.emplace_back(owned * static_cast<size_t>(shape.w2_elements()));
  }
}

template <typename Rows>
std::vector<void*> pointers(std::vector<Rows>& rows) {
  std::vector<void*> list;
  for (Rows& rank : rows) list.push_back(rank.empty() ? nullptr : rank.data());
  return list;
}

// Poison for outputs, so that an element nobody writes is noticed: every bit set is a NaN.
void poison(LayerOutputs& outputs) {
  const auto fill = [](auto& list) {
    for (auto& rank : list) {
      auto* bytes = reinterpret_cast<unsigned char*>(rank.data());
      std::fill_n(bytes, rank.size() * sizeof(rank[0]), uint8_t{0xff});
    }
  };
  fill(outputs.y);
  fill(outputs.dx);
  fill(outputs.dp);
  fill(outputs.dw1);
  fill(outputs.dw2);
}

template <typename Rows>
void add_bits(const std::vector<Rows>& list, Hasher& hasher) {
  for (const Rows& rank : list) {
    const size_t bytes = rank.size() * sizeof(rank[0]);
    const auto* words = reinterpret_cast<const uint32_t*>(rank.data());
    hasher.add_span(std::span(words, bytes / sizeof(uint32_t)));
    if (bytes % sizeof(uint32_t) != 0) {  // an odd number of bf16 elements
      hasher.add(reinterpret_cast<const uint16_t*>(rank.data())[bytes / 2 - 1]);
    }
  }
}

uint64_t hash_of(const LayerOutputs& outputs) {
  Hasher hasher;
  add_bits(outputs.y, hasher);
  add_bits(outputs.dx, hasher);
  add_bits(outputs.dp, hasher);
  add_bits(outputs.dw1, hasher);
  add_bits(outputs.dw2, hasher);
  return hasher.value();
}

// Ranks as threads.
class CpuRun final : public LayerRun {
 public:
  CpuRun(const Workload& workload, const RunOptions& options, const ExecutionTask& task,
         Execution& execution)
      : workload_(workload),
        task_(task),
        has_backward_(options.has_backward()),
        session_(session_config(workload, options, task)) {
    execution.memory = {.layer = session_.memory(), .z = has_backward_ ? session_.z_bytes() : 0};
    execution.pool_rows = session_.layer_config().pool_rows;
    execution.gemm = gemm_backend_name(session_.layer_config().gemm);
    for (int32_t rank = 0; rank < workload.num_ranks(); ++rank) {
      session_.set_weights(0, rank, workload.weights(rank));
    }
  }

  bool run_once(Execution& execution) override {
    const std::vector<void*> y = pointers(execution.outputs.y);
    ForwardContext context =
        session_.forward({.routing = workload_.routing(),
                          .x = workload_.x_pointers(),
                          .y = y,
                          .keeps_z = has_backward_,
                          .plan = task_.outside_plan.empty() ? nullptr : &task_.outside_plan,
                          .fault = task_.fault},
                         execution.forward);
    execution.report = execution.forward.plan;
    if (!execution.report.has_plan()) {
      execution.failure = no_plan_text(execution.report);
      return false;
    }
    execution.plan = context.state().plan;
    if (has_backward_) run_backward(context, execution);
    return true;
  }

 private:
  void run_backward(ForwardContext& context, Execution& execution) {
    LayerOutputs& outputs = execution.outputs;
    const std::vector<void*> dx = pointers(outputs.dx);
    std::vector<float*> dp;
    std::vector<GradientOutput> gradients;
    for (int32_t rank = 0; rank < workload_.num_ranks(); ++rank) {
      dp.push_back(outputs.dp[rank].data());
      gradients.push_back({.mode = GradientMode::kNewFp32,
                           .w1 = outputs.dw1[rank].data(),
                           .w2 = outputs.dw2[rank].data()});
    }
    session_.backward(context,
                      {.dy = workload_.dy_pointers(),
                       .dx = dx,
                       .dp = dp,
                       .gradients = gradients,
                       .fault = task_.fault},
                      execution.backward);
  }

  const Workload& workload_;
  const ExecutionTask& task_;
  const bool has_backward_;
  Session session_;
};

// Keeps the values of the chosen gradient entries, and lets the gradients go.
void take_entries(const Workload& workload, std::span<const GradientEntry> entries,
                  LayerOutputs& outputs) {
  const LayerShape& shape = workload.shape();
  for (const GradientEntry& entry : entries) {
    const int32_t rank = workload.owner_of()[entry.expert];
    const int64_t local = workload.local_index(entry.expert);
    const bool is_w1 = entry.parameter == Parameter::kW1;
    const int64_t width = is_w1 ? shape.hidden : shape.inter;
    const int64_t elements = is_w1 ? shape.w1_elements() : shape.w2_elements();
    const std::vector<float>& gradient = is_w1 ? outputs.dw1[rank] : outputs.dw2[rank];
    outputs.entries.push_back(gradient[local * elements + entry.row * width + entry.col]);
  }
  outputs.dw1.clear();
  outputs.dw2.clear();
}

std::unique_ptr<LayerRun> make_run(const Workload& workload, const RunOptions& options,
                                   const ExecutionTask& task, Execution& execution) {
  if (options.is_on_gpu()) return make_gpu_run(workload, options, task, execution);
  return std::make_unique<CpuRun>(workload, options, task, execution);
}

}  // namespace

Plan preview_plan(const Workload& workload, const ExecutionTask& task) {
  if (!task.outside_plan.empty()) return task.outside_plan;
  Plan plan;
  PlanReport report;
  make_planner(task.plan)->plan(workload.loads(), {}, plan, report);
  return plan;
}

std::string no_plan_text(const PlanReport& report) {
  return fmt::format("no legal plan, the owners of these experts are inactive: {}",
                     fmt::join(report.orphans, ", "));
}

std::chrono::milliseconds wait_deadline(const Workload& workload, const RunOptions& options,
                                        double slow_flops_per_second) {
  constexpr double kLeastSeconds = 30, kPasses = 3;
  double seconds = options.deadline_seconds;
  if (seconds == 0) {
    const double flops = kPasses * static_cast<double>(workload.shape().forward_flops_per_row()) *
                         static_cast<double>(workload.loads().total_rows());
    seconds = kLeastSeconds + flops / slow_flops_per_second;
  }
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Execution execute(const Workload& workload, const RunOptions& options, const ExecutionTask& task,
                  const std::function<void(const std::string&)>& on_step) {
  const bool has_backward = options.has_backward();
  Execution execution;
  execution.name = task.name;
  allocate(workload, has_backward, execution.outputs);
  const std::unique_ptr<LayerRun> run = make_run(workload, options, task, execution);
  uint64_t first_hash = 0;
  try {
    for (int32_t i = 0; i < task.repeats; ++i) {
      on_step(fmt::format("{} placement, pass {} of {}", task.name, i + 1, task.repeats));
      poison(execution.outputs);
      if (!run->run_once(execution)) return execution;
      const uint64_t hash = hash_of(execution.outputs);
      ++execution.num_passes;
      if (i == 0) first_hash = hash;
      execution.is_repeatable = execution.is_repeatable && hash == first_hash;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTimeout && error.code() != ErrorCode::kDisagree) throw;
    execution.failure = error.what();
  }
  if (!execution.plan.empty()) {
    execution.stats = plan_stats(execution.plan, workload.loads(), task.plan);
  }
  if (execution.has_finished() && has_backward && !task.entries.empty()) {
    take_entries(workload, task.entries, execution.outputs);
  }
  return execution;
}

}  // namespace megaflux::cli
