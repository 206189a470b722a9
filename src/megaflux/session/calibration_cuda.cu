#include "megaflux/session/calibration_cuda.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/device_memory_cuda.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"
#include "megaflux/session/group_timer_cuda.h"
#include "megaflux/session/random_fill_cuda.h"

namespace megaflux {
namespace {

// Clocks follow what a device has drawn: every sample of a forward comes behind this much of the
// same load, and takes this long.
constexpr double kLeadMs = 150;
constexpr double kSampleMs = 30;
constexpr double kLeastRate = 400e12;  // FLOP/s of a device, for how many launches that takes
constexpr int32_t kForwardPairs = 9;
constexpr int32_t kShortSamples = 15;  // of heads and transfers
constexpr int32_t kShortLaunches = 20;
constexpr int32_t kSlots = 2;  // at least: two sizes of a transfer

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void check_all_own(const PlanConfig& plan) {
  const std::vector<int32_t> owned = owned_experts(plan.owner_of, plan.dims.num_ranks);
  const auto without = std::ranges::find(owned, 0);
  MF_CHECK(without == owned.end(), "num_experts: ", plan.dims.num_experts, " leave rank ",
           without - owned.begin(), " of ", plan.dims.num_ranks,
           " without an expert, and copies are timed from every rank at once");
}

// One routing of all ranks, on the devices of this process.
struct Step {
  std::vector<ForwardTensors> tensors;  // of this process
  LoadTable loads;
  Plan fixed;
};

// What a hot routing takes beyond a balanced one.
struct BlockTime {
  int32_t num_blocks = 0;  // of the fullest rank
  double more_ns = 0;
  double balanced_ns = 0;
};

// A planner that searches whenever there is anything to gain, whatever else the configuration says
// of planning: fewest rows, idle ranks or their speeds would keep heads from what is measured.
DeviceSessionConfig searching_config(DeviceSessionConfig config) {
  const PlanDims dims = config.plan.dims;
  MF_CHECK(dims.num_ranks >= 2, "num_ranks: ", dims.num_ranks,
           ", replicas and their cost begin at 2");
  PlanConfig plan;
  plan.planner = PlannerKind::kMegaflux;
  plan.objective = Objective::kCost;
  plan.dims = dims;
  plan.dims.replica_slots = std::max(dims.replica_slots, kSlots);
  plan.owner_of = config.plan.owner_of.empty() ? contiguous_owners(dims.num_experts, dims.num_ranks)
                                               : std::move(config.plan.owner_of);
  const MachineModel free_copies = {.link_mb_per_s = kMaxMachineRate,
                                    .plan_ns = 0,
                                    .pre_gate_ns = 0,
                                    .copy_latency_ns = 0,
                                    .round_ns = 0};
  plan.cost = make_cost_model(free_copies, config.shape, dims.block_rows, CostScope::kForward);
  check_all_own(plan);
  config.plan = std::move(plan);
  config.num_layers = 1;
  config.keeps_replicas = false;
  return config;
}

class Calibrator {
 public:
  Calibrator(const DeviceSessionConfig& config, const DeviceSession::GroupMaker& make_group,
             std::span<const MegaWeights> weights)
      : config_(searching_config(config)), session_(config_, make_group), timer_(session_.group()) {
    session_.set_weights(0, weights);
    for (size_t i = 0; i < session_.group().num_devices(); ++i) add_device(i);
    balanced_ = make_step(RouteFamily::kBalanced);
    hot_ = make_step(RouteFamily::kHot15);
  }

  // Times are judged when all is measured: a process that gave up before would leave the others
  // without its launches.
  MachineModel measure() {
    const BlockTime block = measure_block();
    MachineModel machine = {.name = ""};
    measure_link(machine);
    measure_send(machine);
    measure_heads(machine);
    machine.gflops = rate_of(block);
    check_machine(machine);
    return machine;
  }

 private:
  // Tokens lie where peers read them.
  void add_device(size_t device_idx) {
    const CurrentDevice current(session_.group().device(device_idx));
    const int64_t elements = int64_t{config_.max_tokens} * config_.shape.hidden;
    for (const int32_t rank : session_.group().ranks_on(device_idx)) {
      const auto local_idx = static_cast<int32_t>(devices_.size());
      devices_.push_back(session_.group().device(device_idx));
      ranks_.push_back(rank);
      fill_random(session_.tokens(local_idx), elements, 1.0f, static_cast<uint64_t>(rank) + 1);
      y_.emplace_back(devices_.back(), static_cast<size_t>(elements) * sizeof(Bf16));
    }
    MF_CUDA(cudaDeviceSynchronize());
  }

  Step make_step(RouteFamily family) {
    const PlanDims& dims = config_.plan.dims;
    const RouteSet routes = make_routes({.family = family,
                                         .num_experts = dims.num_experts,
                                         .topk = config_.shape.topk,
                                         .num_ranks = dims.num_ranks,
                                         .tokens_per_rank = config_.max_tokens});
    Step step;
    step.loads = LoadTable::from_routing(routes.routing, dims.num_experts);
    step.fixed = plan_of(step.loads, {});
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Routing& routing = routes.routing[ranks_[i]];
      RoutingView view = routing.view();
      view.topk_ids = upload(devices_[i], routing.topk_ids);
      view.topk_weights = reinterpret_cast<const float*>(upload(devices_[i], routing.topk_weights));
      step.tensors.push_back(
          {.x = session_.tokens(static_cast<int32_t>(i)), .y = y_[i].data(), .routing = view});
    }
    return step;
  }

  template <typename T>
  const std::byte* upload(int32_t device, const std::vector<T>& values) {
    memory_.push_back(DeviceMemory::copy_of(device, std::as_bytes(std::span(values))));
    return memory_.back().data();
  }

  // Of each rank the first `copies` experts that have rows.
  std::vector<int32_t> first_experts(int32_t copies) const {
    std::vector<int32_t> experts, taken(config_.plan.dims.num_ranks);
    for (int32_t e = 0; e < config_.plan.dims.num_experts; ++e) {
      const int32_t owner = config_.plan.owner_of[e];
      const bool has_rows = balanced_.loads.totals()[e] > 0;
      if (taken[owner] == copies || !has_rows) continue;
      ++taken[owner];
      experts.push_back(e);
    }
    return experts;
  }

  // Every rank hosts experts of the next one, a block of each.
  std::vector<DraftReplica> ring(int32_t copies) const {
    const int32_t num_ranks = config_.plan.dims.num_ranks;
    std::vector<DraftReplica> replicas;
    for (const int32_t e : first_experts(copies)) {
      const int32_t host = (config_.plan.owner_of[e] + num_ranks - 1) % num_ranks;
      replicas.push_back({.expert = e, .rank = host, .num_blocks = 1});
    }
    return replicas;
  }

  std::vector<int32_t> first_of_rank_0(int32_t copies) const {
    std::vector<int32_t> experts = first_experts(copies);
    std::erase_if(experts, [this](int32_t e) { return config_.plan.owner_of[e] != 0; });
    return experts;
  }

  // How many ranks can host each of these, a block of it each.
  int32_t num_hosts(std::span<const int32_t> experts) const {
    int32_t least = config_.plan.dims.num_ranks - 1;
    for (const int32_t e : experts) {
      least = std::min(least, balanced_.loads.blocks(e, config_.plan.dims.block_rows));
    }
    return least;
  }

  // So many ranks behind rank 0 host experts of it.
  std::vector<DraftReplica> fan(int32_t copies, int32_t num_hosts) const {
    std::vector<DraftReplica> replicas;
    for (const int32_t e : first_of_rank_0(copies)) {
      for (int32_t host = 1; host <= num_hosts; ++host) {
        replicas.push_back({.expert = e, .rank = host, .num_blocks = 1});
      }
    }
    return replicas;
  }

  Plan plan_of(const LoadTable& loads, std::span<const DraftReplica> replicas) const {
    const PlanDims& dims = config_.plan.dims;
    std::vector<int32_t> blocks(dims.num_experts);
    for (int32_t e = 0; e < dims.num_experts; ++e) blocks[e] = loads.blocks(e, dims.block_rows);
    Plan plan;
    plan.assign(
        {.dims = dims, .owner_of = config_.plan.owner_of, .blocks = blocks, .replicas = replicas});
    return plan;
  }

  // Nanoseconds of one of `launches` calls, right behind `lead` that are not timed.
  double time_ns(int32_t lead, int32_t launches, const std::function<void()>& call) {
    for (int32_t i = 0; i < lead; ++i) call();
    timer_.begin();
    for (int32_t i = 0; i < launches; ++i) call();
    timer_.end();
    session_.group().synchronize();
    return timer_.slowest_ms() * 1e6 / launches;
  }

  double forward_ns(const Step& step) {
    session_.route(step.tensors);
    session_.put_plan(step.fixed, step.loads);
    // From the shape alone: every process must make the same launches.
    const double flops = static_cast<double>(config_.shape.forward_flops_per_row()) *
                         config_.plan.dims.block_rows * step.fixed.header().max_blocks *
                         config_.ranks_per_device;
    const auto launches = [&](double ms, double most) {
      return static_cast<int32_t>(std::clamp(ms * kLeastRate / (flops * 1e3), 1.0, most));
    };
    return time_ns(launches(kLeadMs, 1000), launches(kSampleMs, 200),
                   [&] { session_.compute(step.tensors); });
  }

  // What every process finds alike is checked at once.
  BlockTime measure_block() {
    const int32_t more = hot_.fixed.header().max_blocks - balanced_.fixed.header().max_blocks;
    MF_CHECK(more > 0, "max_tokens: ", config_.max_tokens,
             " a rank give the fullest rank of a hot routing ", hot_.fixed.header().max_blocks,
             " blocks, of a balanced one ", balanced_.fixed.header().max_blocks,
             ": a block has no time");
    std::vector<double> balanced_ns, more_ns;
    for (int32_t i = 0; i < kForwardPairs; ++i) {
      balanced_ns.push_back(forward_ns(balanced_));
      more_ns.push_back(forward_ns(hot_) - balanced_ns.back());
    }
    return {.num_blocks = more, .more_ns = median(more_ns), .balanced_ns = median(balanced_ns)};
  }

  int64_t rate_of(const BlockTime& block) const {
    MF_CHECK(block.more_ns > 0, "max_tokens: ", config_.max_tokens, " a rank make ",
             block.num_blocks, " blocks that take no time which shows beside the ",
             block.balanced_ns / 1e3, " us of a forward; measure with more");
    const double flops = static_cast<double>(config_.shape.forward_flops_per_row()) *
                         config_.plan.dims.block_rows * block.num_blocks;
    return std::llround(flops / block.more_ns);
  }

  double transfer_ns(std::span<const DraftReplica> replicas) {
    session_.route(balanced_.tensors);
    session_.put_plan(plan_of(balanced_.loads, replicas), balanced_.loads);
    return time_ns(2, kShortLaunches, [&] { session_.distribute(); });
  }

  // What one more copy takes, and what the first takes beyond that.
  struct CopyTime {
    double more_ns = 0;
    double first_ns = 0;
  };

  // `replicas_of` gives the replicas of 0, 1 and `most` copies.
  template <class Replicas>
  CopyTime measure_copy(int32_t most, const Replicas& replicas_of) {
    std::vector<double> more, first;
    for (int32_t i = 0; i < kShortSamples; ++i) {
      const double none = transfer_ns({}), one = transfer_ns(replicas_of(1));
      const double all = transfer_ns(replicas_of(most));
      more.push_back(most > 1 ? (all - one) / (most - 1) : one - none);
      first.push_back(one - none - more.back());
    }
    return {.more_ns = median(more), .first_ns = std::max(median(first), 0.0)};
  }

  // A copy that takes no time is a measurement that failed: check_machine refuses the rate.
  int64_t bytes_per_us(int32_t copies, double ns) const {
    return std::llround(static_cast<double>(config_.shape.expert_bytes()) * copies * 1e3 /
                        std::max(ns, 1e-3));
  }

  void measure_link(MachineModel& machine) {
    const int32_t most = std::min(
        config_.plan.dims.replica_slots,
        std::ranges::min(owned_experts(config_.plan.owner_of, config_.plan.dims.num_ranks)));
    const CopyTime copy = measure_copy(most, [this](int32_t copies) { return ring(copies); });
    machine.link_mb_per_s = bytes_per_us(1, copy.more_ns);
    machine.copy_latency_ns = std::llround(copy.first_ns);
  }

  // Where no two ranks can pull from one, or no time shows, the link's rate stands for it.
  void measure_send(MachineModel& machine) {
    const std::vector<int32_t> experts = first_of_rank_0(config_.plan.dims.replica_slots);
    const int32_t hosts = num_hosts(experts);
    if (experts.empty() || hosts < 2) return;
    const CopyTime copy = measure_copy(static_cast<int32_t>(experts.size()),
                                       [&](int32_t copies) { return fan(copies, hosts); });
    const int64_t rate = bytes_per_us(hosts, copy.more_ns);
    if (rate >= 1 && rate <= kMaxMachineRate) machine.send_mb_per_s = rate;
  }

  double head_ns(const Step& step) {
    return time_ns(2, kShortLaunches, [&] { session_.route(step.tensors); });
  }

  void measure_heads(MachineModel& machine) {
    std::vector<double> searching, refused;
    for (int32_t i = 0; i < kShortSamples; ++i) {
      searching.push_back(head_ns(hot_));
      refused.push_back(head_ns(balanced_));
    }
    machine.plan_ns = std::llround(median(searching));
    machine.pre_gate_ns = std::llround(median(refused));
  }

  DeviceSessionConfig config_;
  DeviceSession session_;
  GroupTimer timer_;
  std::vector<int32_t> devices_, ranks_;  // of each rank of this process
  std::vector<DeviceMemory> memory_;      // that the tensors point to
  std::vector<DeviceMemory> y_;
  Step balanced_, hot_;
};

}  // namespace

MachineModel calibrate(const DeviceSessionConfig& config,
                       const DeviceSession::GroupMaker& make_group,
                       std::span<const MegaWeights> weights) {
  return Calibrator(config, make_group, weights).measure();
}

}  // namespace megaflux
