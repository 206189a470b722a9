#include "cli/bench/head_bench.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "cli/bench/gpu_bench_options.h"
#include "megaflux/base/check_cuda.h"
#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/comm/local_group_cuda.h"
#include "megaflux/head/device_head_cuda.h"
#include "megaflux/layer/mega/mega_fields.h"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/session/group_timer_cuda.h"

namespace megaflux::cli {
namespace {

constexpr int32_t kLaunchesPerReplay = 20;

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraphExec_st, DestroyGraph>;

// The heads and planners of one device, and the ids of its ranks.
struct DeviceSide {
  std::unique_ptr<DeviceHead> head;
  std::unique_ptr<DevicePlanner> planner;
  std::vector<DeviceMemory> ids;
  DeviceHeadParams params;
  Graph graph;
};

class HeadRig {
 public:
  explicit HeadRig(const HeadBenchCase& bench_case)
      : config_{.plan = bench_case.plan,
                .topk = bench_case.topk,
                .max_tokens = bench_case.routing[0].num_tokens} {
    Layout layout;
    fields_ = add_device_head_fields(
        layout, config_, {.max_ctas = kMostCtas, .report_bytes = sizeof(DevicePlanReport)});
    add_mega_counters(layout, layer_config(bench_case));
    group_ = std::make_unique<LocalGroup>(LocalConfig{.device_of = bench_case.device_of}, layout);
    for (size_t i = 0; i < group_->num_devices(); ++i) add_device(i, bench_case);
    launch();
    group_->synchronize();
    capture();
    timer_.emplace(*group_);
  }

  int32_t ctas_per_rank() const {
    int32_t least = kMostCtas;
    for (const DeviceSide& side : sides_) least = std::min(least, side.head->num_ctas());
    return least;
  }

  // Microseconds of a launch, the slowest device counting.
  double replay() {
    // Brings all devices to the same place.
    launch_graphs();
    timer_->begin();
    launch_graphs();
    timer_->end();
    group_->synchronize();
    return timer_->slowest_ms() * 1000 / kLaunchesPerReplay;
  }

  // The bytes that the last launch left on `rank`.
  std::vector<std::byte> plan_of(int32_t rank) const {
    std::vector<std::byte> bytes(PlanLayout(config_.plan.dims).total_bytes);
    MF_CUDA(cudaMemcpy(bytes.data(), group_->heap().at(rank, fields_.plan), bytes.size(),
                       cudaMemcpyDefault));
    return bytes;
  }

 private:
  static constexpr int32_t kMostCtas = 132;

  // Of a session, whose heads clear the layer's counters. Tiles and tokens decide how many there
  // are; of H and I a few words of a slot depend, as wide here as any model of ours.
  static MegaConfig layer_config(const HeadBenchCase& bench_case) {
    const PlanDims& dims = bench_case.plan.dims;
    return resolve_config({.shape = {.num_experts = dims.num_experts,
                                     .topk = bench_case.topk,
                                     .hidden = 7168,
                                     .inter = 2048},
                           .num_ranks = dims.num_ranks,
                           .replica_slots = dims.replica_slots,
                           .max_tokens = bench_case.routing[0].num_tokens,
                           .num_sms = 1},
                          1);
  }

  void add_device(size_t device_idx, const HeadBenchCase& bench_case) {
    const int32_t device = group_->device(device_idx);
    const CurrentDevice current(device);
    DeviceSide side;
    side.head = std::make_unique<DeviceHead>(config_, fields_, group_->ranks_on(device_idx));
    side.planner = std::make_unique<DevicePlanner>(config_.plan, device, max_step_rows(config_));
    std::vector<RoutingView> views;
    for (const int32_t rank : group_->ranks_on(device_idx)) {
      const std::vector<int32_t>& ids = bench_case.routing[rank].topk_ids;
      side.ids.push_back(DeviceMemory::copy_of(device, std::as_bytes(std::span(ids))));
      RoutingView view = bench_case.routing[rank].view();
      view.topk_ids = side.ids.back().data();
      view.topk_weights = nullptr;  // a head does not read them
      views.push_back(view);
    }
    side.params = side.head->params(views, {});
    sides_.push_back(std::move(side));
  }

  void launch() {
    size_t i = 0;
    group_->launch([&](const DeviceContext& context, cudaStream_t stream) {
      launch_head(context, *sides_[i].head, sides_[i].params, *sides_[i].planner, stream);
      ++i;
    });
  }

  void launch_graphs() {
    for (size_t i = 0; i < sides_.size(); ++i) {
      const CurrentDevice current(group_->device(i));
      MF_CUDA(cudaGraphLaunch(sides_[i].graph.get(), group_->stream(i)));
    }
  }

  void capture() {
    for (size_t i = 0; i < sides_.size(); ++i) {
      const CurrentDevice current(group_->device(i));
      MF_CUDA(cudaStreamBeginCapture(group_->stream(i), cudaStreamCaptureModeRelaxed));
    }
    for (int32_t k = 0; k < kLaunchesPerReplay; ++k) launch();
    for (size_t i = 0; i < sides_.size(); ++i) {
      const CurrentDevice current(group_->device(i));
      cudaGraph_t captured = nullptr;
      cudaGraphExec_t graph = nullptr;
      MF_CUDA(cudaStreamEndCapture(group_->stream(i), &captured));
      const cudaError_t status = cudaGraphInstantiate(&graph, captured, 0);
      cudaGraphDestroy(captured);
      check_cuda(status, "cudaGraphInstantiate");
      sides_[i].graph.reset(graph);
      MF_CUDA(cudaGraphUpload(graph, group_->stream(i)));
    }
  }

  HeadConfig config_;
  DeviceHeadFields fields_;
  std::unique_ptr<LocalGroup> group_;
  std::vector<DeviceSide> sides_;  // [devices]
  std::optional<GroupTimer> timer_;
};

Plan plan_on_host(const HeadBenchCase& bench_case) {
  const LoadTable loads =
      LoadTable::from_routing(bench_case.routing, bench_case.plan.dims.num_experts);
  Plan plan;
  PlanReport report;
  make_planner(bench_case.plan)->plan(loads, {}, plan, report);
  return plan;
}

}  // namespace

HeadBenchFigures bench_head(const HeadBenchCase& bench_case) {
  HeadRig rig(bench_case);
  HeadBenchFigures figures{.head_us = {}, .ctas_per_rank = rig.ctas_per_rank()};
  rig.replay();
  for (int32_t i = 0; i < bench_case.replays; ++i) figures.head_us.push_back(rig.replay());
  const Plan expected = plan_on_host(bench_case);
  for (int32_t rank = 0; rank < bench_case.plan.dims.num_ranks; ++rank) {
    const std::vector<std::byte> found = rig.plan_of(rank);
    MF_INVARIANT(
        std::equal(found.begin(), found.end(), expected.bytes().begin(), expected.bytes().end()),
        "the head of rank ", rank, " made another plan than the host");
  }
  return figures;
}

}  // namespace megaflux::cli
