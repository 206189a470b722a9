#include "cli/gpu/run_on_gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "cli/plan/plan_result.h"
#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/session/device_session_cuda.h"
#include "megaflux/session/group_timer_cuda.h"

namespace megaflux::cli {
namespace {

// Even a device that many ranks share computes faster.
constexpr double kSlowGpuFlops = 1e12;
// Every bit set is a NaN: what nobody writes is noticed.
constexpr int kPoison = 0xff;

template <typename T>
DeviceMemory copy_of(int32_t device, std::span<const T> values) {
  return DeviceMemory::copy_of(device, std::as_bytes(values));
}

// What one rank holds on its device.
struct RankTensors {
  RankTensors(const Workload& workload, int32_t rank, int32_t device)
      : routing(workload.routing()[rank]),
        y(device, workload.x(rank).size()),
        ids(copy_of(device, std::span(static_cast<const int32_t*>(routing.topk_ids), pairs()))),
        weights(copy_of(device, std::span(routing.topk_weights, pairs()))) {
    const LayerShape& shape = workload.shape();
    const OwnedWeights owned = workload.weights(rank);
    const auto num_owned = static_cast<size_t>(workload.owned_experts(rank));
    const auto copy_weights = [&](const void* weights_of_rank, int64_t of_expert) {
      const auto* const values = static_cast<const Bf16*>(weights_of_rank);
      return copy_of(device, std::span(values, num_owned * static_cast<size_t>(of_expert)));
    };
    w1 = copy_weights(owned.w1, shape.w1_elements());
    w2 = copy_weights(owned.w2, shape.w2_elements());
    // Without peers x may lie anywhere; with them it lies in the heap.
    if (workload.num_ranks() == 1) x = copy_of(device, std::span(workload.x(rank)));
    routing.topk_ids = ids.data();
    routing.topk_weights = reinterpret_cast<const float*>(weights.data());
  }

  MegaWeights owned_weights(int32_t num_owned) const {
    return {.num_owned = num_owned, .w1 = w1.data(), .w2 = w2.data()};
  }

  RoutingView routing;
  DeviceMemory x, y, ids, weights, w1, w2;

 private:
  size_t pairs() const { return static_cast<size_t>(routing.num_tokens) * routing.topk; }
};

DeviceSessionConfig session_config(const Workload& workload, const RunOptions& options,
                                   const ExecutionTask& task) {
  DeviceSessionConfig config;
  config.shape = workload.shape();
  config.max_tokens = workload.max_tokens();
  config.plan = task.plan;
  config.ranks_per_device = ranks_per_device(options);
  config.pool_rows = options.capacity_rows;
  return config;
}

class GpuRun final : public LayerRun {
 public:
  GpuRun(const Workload& workload, const RunOptions& options, const ExecutionTask& task)
      : workload_(workload), task_(task) {
    make_planner(task.plan)->plan(workload.loads(), {}, host_plan_, host_report_);
    const std::vector<int32_t> device_of = deal_ranks(workload.num_ranks(), options.num_devices);
    std::vector<MegaWeights> owned;
    for (int32_t rank = 0; rank < workload.num_ranks(); ++rank) {
      ranks_.emplace_back(workload, rank, device_of[rank]);
      owned.push_back(ranks_.back().owned_weights(workload.owned_experts(rank)));
    }
    LocalConfig local;
    local.device_of = device_of;
    local.waits.deadline = wait_deadline(workload, options, kSlowGpuFlops);
    MF_CUDA(cudaSetDevice(0));
    session_ = std::make_unique<DeviceSession>(
        session_config(workload, options, task),
        [&](const Layout& layout) { return std::make_unique<LocalGroup>(local, layout); });
    session_->set_weights(0, owned);
    session_->set_fault(task.fault);
    take_tensors();
    timer_.emplace(group());
    for (size_t i = 0; i < group().num_devices(); ++i) {
      const CurrentDevice current(group().device(i));
      MF_CUDA(cudaDeviceSynchronize());
    }
  }

  void describe(Execution& execution) const {
    GpuFigures figures;
    figures.memory = mega_memory(session_->config());
    figures.head_bytes =
        static_cast<int64_t>(group().layout().total_bytes()) - figures.memory.heap();
    execution.gpu = figures;
    execution.pool_rows = session_->config().pool_rows;
    execution.gemm = "wgmma, sm_90a";
  }

  bool run_once(Execution& execution) override {
    // A head ahead of the one that is timed keeps devices busy while the host issues that one.
    session_->route(tensors_);
    execution.forward.head_ns = timed_ns([&] { session_->route(tensors_); });
    execution.report = host_report_;
    execution.gpu->plan_differs = compare_plans();
    if (!execution.gpu->plan_differs.empty()) {
      execution.failure = execution.gpu->plan_differs;
      return false;
    }
    if (!host_report_.has_plan()) {
      execution.failure = no_plan_text(host_report_);
      return false;
    }
    execution.plan = task_.outside_plan.empty() ? host_plan_ : task_.outside_plan;
    if (!task_.outside_plan.empty()) session_->put_plan(task_.outside_plan, workload_.loads());
    poison();
    execution.forward.layer_ns = timed_ns([&] { session_->compute(tensors_); });
    session_->check();
    read_outputs(execution.outputs);
    read_report(execution.forward);
    return true;
  }

 private:
  DeviceGroup& group() const { return session_->group(); }

  // x goes where peers read it, if there are any.
  void take_tensors() {
    for (int32_t rank = 0; rank < workload_.num_ranks(); ++rank) {
      const RankTensors& held = ranks_[rank];
      Bf16* const shared = session_->tokens(rank);
      if (shared != nullptr) {
        const Buffer& x = workload_.x(rank);
        MF_CUDA(cudaMemcpy(shared, x.data(), x.size(), cudaMemcpyDefault));
      }
      tensors_.push_back({.x = shared != nullptr ? static_cast<const void*>(shared) : held.x.data(),
                          .y = held.y.data(),
                          .routing = held.routing});
    }
  }

  // Of what `launch` puts on the group's streams; the slowest device counts.
  template <typename Fn>
  int64_t timed_ns(Fn&& launch) {
    timer_->begin();
    launch();
    timer_->end();
    group().synchronize();
    return std::llround(timer_->slowest_ms() * 1e6);
  }

  // How the plan of a rank's head differs from the host's; empty if none does.
  std::string compare_plans() const {
    for (int32_t rank = 0; rank < workload_.num_ranks(); ++rank) {
      const std::vector<std::byte> bytes = session_->read_step(rank).plan;
      const std::span<const std::byte> expected = host_plan_.bytes();
      // Without a legal plan a head leaves an empty header.
      const bool is_equal =
          host_report_.has_plan()
              ? std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end())
              : std::all_of(bytes.begin(), bytes.begin() + sizeof(PlanHeader),
                            [](std::byte b) { return b == std::byte{}; });
      if (is_equal) continue;
      return "the plan of rank " + std::to_string(rank) + "'s head is not that of the host, " +
             (host_report_.has_plan() ? hash_text(host_plan_) : "which has none");
    }
    return {};
  }

  // Ahead of the forward on its streams, which also keeps devices busy while the host issues it.
  void poison() const {
    const Field<Bf16> results = session_->fields().results;
    int32_t rank = 0;
    for (size_t i = 0; i < group().num_devices(); ++i) {
      const CurrentDevice current(group().device(i));
      for (size_t k = 0; k < group().ranks_on(i).size(); ++k, ++rank) {
        const cudaStream_t stream = group().stream(i);
        const DeviceMemory& y = ranks_[rank].y;
        MF_CUDA(cudaMemsetAsync(y.data(), kPoison, y.bytes(), stream));
        const SlotPool& slots = session_->slots(rank);
        const auto num_slots = static_cast<size_t>(task_.plan.dims.replica_slots);
        const LayerShape& shape = workload_.shape();
        MF_CUDA(cudaMemsetAsync(slots.w1, kPoison, num_slots * shape.w1_elements() * sizeof(Bf16),
                                stream));
        MF_CUDA(cudaMemsetAsync(slots.w2, kPoison, num_slots * shape.w2_elements() * sizeof(Bf16),
                                stream));
        MF_CUDA(cudaMemsetAsync(at_base(session_->base(rank), results), kPoison,
                                results.count * sizeof(Bf16), stream));
      }
    }
  }

  void read_outputs(LayerOutputs& outputs) const {
    for (int32_t rank = 0; rank < workload_.num_ranks(); ++rank) {
      Buffer& y = outputs.y[rank];
      MF_CUDA(cudaMemcpy(y.data(), ranks_[rank].y.data(), y.size(), cudaMemcpyDefault));
    }
  }

  // Rows and tiles of the lists that the forward has walked.
  void read_report(StepReport& report) const {
    const int32_t pool_tiles = session_->config().pool_tiles();
    report.ranks.resize(static_cast<size_t>(workload_.num_ranks()));
    for (int32_t rank = 0; rank < workload_.num_ranks(); ++rank) {
      const WorkListHeader work = session_->read_step(rank).work;
      std::vector<Part> parts(static_cast<size_t>(work.num_parts));
      MF_CUDA(cudaMemcpy(parts.data(), at_base(session_->base(rank), session_->head_fields().parts),
                         parts.size() * sizeof(Part), cudaMemcpyDefault));
      RankReport& found = report.ranks[rank];
      found.clear(workload_.num_ranks());
      found.tiles = work.num_tiles;
      found.rounds = ceil_div(work.num_tiles, pool_tiles);
      for (const Part& part : parts) {
        found.rows += part.num_rows;
        if (part.is_replica) found.rows_from_slots += part.num_rows;
      }
    }
  }

  const Workload& workload_;
  const ExecutionTask& task_;
  Plan host_plan_;
  PlanReport host_report_;
  std::vector<RankTensors> ranks_;  // [P]; by device, then by rank, as ranks are dealt
  std::unique_ptr<DeviceSession> session_;
  std::vector<ForwardTensors> tensors_;  // [P]
  std::optional<GroupTimer> timer_;
};

}  // namespace

std::unique_ptr<LayerRun> make_gpu_run(const Workload& workload, const RunOptions& options,
                                       const ExecutionTask& task, Execution& execution) {
  auto run = std::make_unique<GpuRun>(workload, options, task);
  run->describe(execution);
  return run;
}

}  // namespace megaflux::cli
