#include <algorithm>
#include <utility>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/plan/planner_device.cuh"
#include "megaflux/plan/problem.h"

namespace megaflux {
namespace {

template <class Lanes>
__global__ void __launch_bounds__(kPlannerThreads<Lanes>, 1)
    plan_kernel(const __grid_constant__ DevicePlannerParams params, const int32_t* loads,
                const int32_t* resident, std::byte* plan, DevicePlanReport* report) {
  extern __shared__ uint4 shared[];
  plan_on_device<Lanes>(params, loads, resident, plan, report,
                        reinterpret_cast<std::byte*>(shared));
}

constexpr int64_t kMostNarrowBlocks = (int64_t{1} << 20) - 1;  // below half of a key's values

// The tables of a configuration as the device wants them.
struct HostTables {
  std::vector<DeviceDomain> domains;
  std::vector<int32_t> owned, owner_place, first_owned, ranks;
  std::vector<int64_t> base, speed;
  int32_t most_ranks = 0, most_owned = 0;
};

void append_domain(const PlanConfig& config, const DomainProblem& problem, HostTables& tables) {
  DeviceDomain domain;
  domain.first_rank = static_cast<int32_t>(tables.ranks.size());
  domain.num_ranks = problem.num_ranks;
  domain.first_expert = static_cast<int32_t>(tables.owned.size());
  domain.is_uniform = problem.is_uniform ? 1 : 0;
  for (int32_t r = 0; r < problem.num_ranks; ++r) {
    const int32_t first = domain.num_experts;
    tables.first_owned.push_back(first);
    for (int32_t e = 0; e < config.dims.num_experts; ++e) {
      if (config.owner_of[e] != problem.ranks[r]) continue;
      tables.owner_place[e] = domain.first_rank + r;
      tables.owned.push_back(e);
      ++domain.num_experts;
    }
    tables.most_owned = std::max(tables.most_owned, domain.num_experts - first);
  }
  tables.first_owned.push_back(domain.num_experts);
  tables.ranks.insert(tables.ranks.end(), problem.ranks.begin(), problem.ranks.end());
  tables.base.insert(tables.base.end(), problem.base.begin(), problem.base.end());
  tables.speed.insert(tables.speed.end(), problem.speed.begin(), problem.speed.end());
  tables.most_ranks = std::max(tables.most_ranks, problem.num_ranks);
  tables.domains.push_back(domain);
}

// Domains, base work and speeds are those of the host's problems, in units of `unit_rows` rows.
HostTables make_tables(const PlanConfig& config, int32_t unit_rows) {
  HostTables tables;
  tables.owner_place.assign(config.dims.num_experts, -1);
  const ProblemBuilder builder(config, unit_rows);
  for (const DomainProblem& problem : builder.domains()) append_domain(config, problem, tables);
  for (int32_t e = 0; e < config.dims.num_experts; ++e) {
    if (tables.owner_place[e] < 0) tables.owned.push_back(e);
  }
  return tables;
}

// The narrowest lanes that hold the problem.
PlannerLanes choose_lanes(const PlanConfig& config, const HostTables& tables, int64_t max_rows) {
  const auto& dims = config.dims;
  const bool is_uniform =
      std::all_of(tables.domains.begin(), tables.domains.end(),
                  [](const DeviceDomain& domain) { return domain.is_uniform != 0; });
  const bool is_quota = config.planner == PlannerKind::kQuota;
  int64_t most = is_quota ? max_rows : max_rows / dims.block_rows + dims.num_experts;
  if (config.objective == Objective::kBackward) {
    most += int64_t{config.lambda_blocks} * dims.num_ranks * dims.replica_slots;
  }
  const bool is_cost = config.objective == Objective::kCost;
  const bool has_long_times =
      is_cost && !fits_in_64_bits(cost_times(*config.cost), kMostNarrowBlocks,
                                  static_cast<uint64_t>(dims.num_ranks) * dims.replica_slots);
  if (!is_uniform || is_quota || most > kMostNarrowBlocks || tables.most_ranks > 64 ||
      has_long_times) {
    return PlannerLanes::kWide128;
  }
  const bool is_small = tables.most_ranks <= 32;
  if (is_cost) {
    return is_small ? PlannerLanes::kCost32 : PlannerLanes::kCost64;
  }
  return is_small ? PlannerLanes::kNarrow32 : PlannerLanes::kNarrow64;
}

// How many searches fit side by side, and the shared memory that takes.
void fit_shared_memory(size_t limit, int32_t num_threads, DevicePlannerParams& params) {
  place_memory(params);
  const size_t plan_bytes = round_up(PlanLayout(params.dims).total_bytes, size_t{16});
  const size_t room = limit - std::min<size_t>(limit, params.search_offset);
  const auto fitting = static_cast<int32_t>(room / params.search_bytes);
  MF_INVARIANT(fitting >= 1 && plan_bytes <= room, "the planner needs ", params.search_offset,
               " bytes of shared memory beside ", params.search_bytes, " a search, of ", limit);
  params.num_searches = std::min(fitting, num_threads / 32);
  const size_t search_bytes = static_cast<size_t>(params.num_searches) * params.search_bytes;
  params.shared_bytes =
      static_cast<uint32_t>(params.search_offset + std::max(plan_bytes, search_bytes));
}

// Copies vectors into one piece of device memory.
class TableWriter {
 public:
  template <typename T>
  size_t add(const std::vector<T>& values) {
    bytes_.resize(round_up(bytes_.size(), size_t{16}));
    const size_t at = bytes_.size();
    const auto* begin = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), begin, begin + values.size() * sizeof(T));
    return at;
  }
  DeviceMemory upload(int32_t device) const { return DeviceMemory::copy_of(device, bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

DeviceMemory upload_tables(const PlanConfig& config, const HostTables& tables, int32_t device,
                           DevicePlannerParams& params) {
  TableWriter writer;
  const size_t domains = writer.add(tables.domains), owner_of = writer.add(config.owner_of),
               owned = writer.add(tables.owned), owner_place = writer.add(tables.owner_place),
               first_owned = writer.add(tables.first_owned), ranks = writer.add(tables.ranks),
               base = writer.add(tables.base), speed = writer.add(tables.speed);
  DeviceMemory memory = writer.upload(device);
  const auto place = [&memory]<typename T>(size_t offset, const T*& pointer) {
    pointer = reinterpret_cast<const T*>(memory.data() + offset);
  };
  place(domains, params.domains);
  place(owner_of, params.owner_of);
  place(owned, params.owned);
  place(owner_place, params.owner_place);
  place(first_owned, params.first_owned);
  place(ranks, params.ranks);
  place(base, params.base);
  place(speed, params.speed);
  return memory;
}

DevicePlannerParams make_params(const PlanConfig& config, const HostTables& tables,
                                int64_t max_rows) {
  const bool is_quota = config.planner == PlannerKind::kQuota;
  DevicePlannerParams params;
  params.dims = config.dims;
  if (is_quota) params.dims.block_rows = 1;
  params.units = config.dims.block_rows / params.dims.block_rows;
  params.planner = config.planner;
  params.objective = config.objective;
  params.lanes = choose_lanes(config, tables, max_rows);
  // Rows have min_rows_per_replica; the least size of a copy is a matter of blocks.
  params.min_copy_blocks = is_quota ? 1 : config.min_copy_blocks;
  params.min_rows_per_replica = config.min_rows_per_replica;
  params.has_least = is_quota || params.min_copy_blocks > 1 || params.min_rows_per_replica > 1;
  if (config.objective == Objective::kBackward) {
    params.lambda_blocks = config.lambda_blocks * params.units;
  }
  params.slack_ppm = config.slack_ppm;
  params.min_forward_rows = config.min_forward_rows;
  params.max_blocks = params.lanes == PlannerLanes::kWide128 ? INT32_MAX : kMostNarrowBlocks;
  if (config.cost) params.cost = cost_times(*config.cost);
  params.num_domains = static_cast<int32_t>(tables.domains.size());
  params.num_places = static_cast<int32_t>(tables.ranks.size());
  params.most_owned = tables.most_owned;
  const int32_t dims[kNumDimWords] = {params.dims.num_experts, params.dims.num_ranks,
                                      params.dims.replica_slots, params.dims.block_rows};
  for (int32_t i = 0; i < kNumDimWords; ++i) {
    params.dims_hash += hash_word(static_cast<uint32_t>(dims[i]), static_cast<uint64_t>(i));
  }
  params.rank_words = ceil_div(most_ranks(params.lanes), 64);
  return params;
}

PlanConfig with_owners(PlanConfig config) {
  if (config.owner_of.empty()) {
    config.owner_of = contiguous_owners(config.dims.num_experts, config.dims.num_ranks);
  }
  return config;
}

}  // namespace

void check_device_config(const PlanConfig& config) {
  check_config(config);
  const auto check = [](const char* name, int32_t value, int32_t most) {
    if (value <= most) return;
    throw_error(ErrorCode::kUnsupported, name, ": ", value, ", a device plans with at most ", most);
  };
  check("num_experts", config.dims.num_experts, kMaxDeviceExperts);
  check("num_ranks", config.dims.num_ranks, kMaxDeviceRanks);
  check("replica_slots", config.dims.replica_slots, kMaxDeviceSlots);
  if (is_baseline(config.planner)) {
    throw_error(ErrorCode::kUnsupported, "planner: ", planner_name(config.planner),
                " runs on the host only; a device has megaflux, paper, quota and fixed");
  }
}

std::string describe(const DevicePlanReport& report) {
  switch (report.status) {
    case DevicePlanStatus::kPlanned:
      return {};
    case DevicePlanStatus::kOrphans:
      return "no legal plan: " + std::to_string(report.num_orphans) +
             " expert(s) have rows, and their owner is inactive";
    case DevicePlanStatus::kTooManyRows:
      return "loads: a negative number of rows, 2^31 rows or more in all, or more blocks than "
             "max_rows of the planner allows";
  }
  return "unknown status";
}

DevicePlanner::DevicePlanner(PlanConfig config, int32_t device, int64_t max_rows)
    : config_(with_owners(std::move(config))), max_rows_(max_rows), device_(device) {
  check_device_config(config_);
  hash_ = config_hash(config_);
  MF_CHECK(max_rows >= 1 && max_rows <= INT32_MAX, "max_rows: ", max_rows, " is outside [1, ",
           INT32_MAX, "]");
  const CurrentDevice current(device);
  const HostTables tables =
      make_tables(config_, config_.planner == PlannerKind::kQuota ? 1 : config_.dims.block_rows);
  params_ = make_params(config_, tables, max_rows);
  int limit = 0;
  MF_CUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  tables_ = upload_tables(config_, tables, device, params_);
  // With residents or without, all kernels of these lanes have as many threads.
  with_planner_lanes(params_, true, [&]<class Lanes>() {
    fit_shared_memory(static_cast<size_t>(limit) - kPlannerCallerBytes, kPlannerThreads<Lanes>,
                      params_);
  });
  for (const bool has_residents : {false, true}) {
    with_planner_lanes(params_, has_residents, [&]<class Lanes>() {
      MF_CUDA(cudaFuncSetAttribute(plan_kernel<Lanes>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   limit));
    });
  }
}

void DevicePlanner::launch(const int32_t* loads, const int32_t* resident, std::byte* plan,
                           DevicePlanReport* report, cudaStream_t stream) const {
  const CurrentDevice current(device_);
  with_planner_lanes(params_, resident != nullptr, [&]<class Lanes>() {
    plan_kernel<Lanes><<<1, kPlannerThreads<Lanes>, params_.shared_bytes, stream>>>(
        params_, loads, resident, plan, report);
  });
  MF_CUDA(cudaGetLastError());
}

}  // namespace megaflux
