// The device planner against the host planner: equal bytes, whatever the configuration.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "case_file.h"
#include "gpu/captured_launch.cuh"
#include "gpu/gpu_test.cuh"
#include "megaflux/moe/scale_counts.h"
#include "megaflux/plan/device_planner_cuda.h"
#include "megaflux/plan/planner.h"
#include "plan/any_step.h"

namespace megaflux {
namespace {

using gpu::by_size;
using gpu::DeviceArray;

// Plans all steps on host and device and compares every byte. Steps are launched together.
class Comparison {
 public:
  Comparison(PlanConfig config, std::vector<Step> steps, int64_t max_rows = INT32_MAX)
      : steps_(std::move(steps)),
        host_(make_planner(config)),
        device_(config, 0, max_rows),
        stride_(round_up(device_.plan_bytes(), size_t{16})),
        plans_(stride_ * steps_.size()),
        reports_(steps_.size()) {
    for (const Step& step : steps_) {
      loads_.emplace_back(std::span<const int32_t>(step.rows));
      residents_.emplace_back(std::span<const int32_t>(step.resident));
    }
  }

  void run() {
    for (size_t i = 0; i < steps_.size(); ++i) launch(i, nullptr);
    check_all();
  }
  void launch(size_t i, cudaStream_t stream) const {
    const int32_t* resident = steps_[i].resident.empty() ? nullptr : residents_[i].data();
    device_.launch(loads_[i].data(), resident, plans_.data() + i * stride_, reports_.data() + i,
                   stream);
  }
  void check_all() {
    const std::vector<std::byte> bytes = plans_.download();
    const std::vector<DevicePlanReport> reports = reports_.download();
    for (size_t i = 0; i < steps_.size() && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      check(steps_[i], std::span(bytes).subspan(i * stride_, stride_), reports[i]);
    }
  }
  void poison() { plans_.poison(); }
  void upload(size_t i, const Step& step) {
    steps_[i] = step;
    loads_[i].upload(step.rows);
  }
  size_t num_replicas() const { return num_replicas_; }
  size_t num_kept() const { return num_kept_; }

 private:
  void check(const Step& step, std::span<const std::byte> bytes, const DevicePlanReport& report) {
    const PlanDims& dims = host_->config().dims;
    const LoadTable loads(dims.num_ranks, dims.num_experts, step.rows);
    Plan plan;
    PlanReport expected;
    host_->plan(loads, step.resident, plan, expected);
    if (plan.empty()) {
      EXPECT_EQ(report.status, DevicePlanStatus::kOrphans);
      EXPECT_EQ(report.num_orphans, static_cast<int32_t>(expected.orphans.size()));
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                              [](std::byte b) { return b == std::byte{0xcd}; }));
      return;
    }
    ASSERT_EQ(report.status, DevicePlanStatus::kPlanned) << describe(report);
    EXPECT_EQ(report.gate, expected.gate);
    EXPECT_EQ(report.tau, expected.tau);
    ASSERT_EQ(plan.bytes().size(), device_.plan_bytes());
    const auto differs =
        std::mismatch(plan.bytes().begin(), plan.bytes().end(), bytes.begin()).first;
    EXPECT_EQ(differs - plan.bytes().begin(), static_cast<ptrdiff_t>(plan.bytes().size()))
        << "first byte that differs; E " << dims.num_experts << " P " << dims.num_ranks << " s "
        << dims.replica_slots << " beta " << dims.block_rows << " planner "
        << planner_name(host_->config().planner) << " objective "
        << objective_name(host_->config().objective) << ", " << plan.num_replicas()
        << " replicas, search " << plan.header().search_id << ", on the device "
        << reinterpret_cast<const PlanHeader*>(bytes.data())->search_id;
    num_replicas_ += static_cast<size_t>(plan.num_replicas());
    num_kept_ += static_cast<size_t>(plan.num_replicas() - plan.header().num_copies);
    EXPECT_TRUE(std::all_of(bytes.begin() + static_cast<ptrdiff_t>(plan.bytes().size()),
                            bytes.end(), [](std::byte b) { return b == std::byte{0xcd}; }))
        << "written behind the plan";
  }

  std::vector<Step> steps_;
  std::unique_ptr<Planner> host_;
  DevicePlanner device_;
  size_t stride_;
  DeviceArray<std::byte> plans_;
  DeviceArray<DevicePlanReport> reports_;
  std::vector<DeviceArray<int32_t>> loads_, residents_;
  size_t num_replicas_ = 0;
  size_t num_kept_ = 0;
};

// What a step's plan leaves in the slots of every rank: some in another order, some twice. Nothing
// where there is no legal plan.
std::vector<int32_t> slots_left_by(Planner& host, const Step& step, Rng& rng) {
  const PlanDims& dims = host.config().dims;
  Plan plan;
  PlanReport report;
  host.plan(LoadTable(dims.num_ranks, dims.num_experts, step.rows), step.resident, plan, report);
  if (plan.empty()) return {};
  std::vector<int32_t> slots(plan.slot_expert().begin(), plan.slot_expert().end());
  const int32_t s = dims.replica_slots;
  for (int32_t rank = 0; rank < dims.num_ranks; ++rank) {
    int32_t* const of_rank = slots.data() + static_cast<size_t>(rank) * s;
    std::rotate(of_rank, of_rank + rng.below(static_cast<uint32_t>(s)), of_rank + s);
    if (rng.below(8) == 0) of_rank[rng.below(static_cast<uint32_t>(s))] = of_rank[0];
  }
  return slots;
}

TEST(DevicePlanner, RandomTablesGiveTheHostsBytes) {
  MF_NEEDS_GPUS(1);
  const int configs = by_size(500, 6, 5000);
  const int steps = by_size(20, 1, 20);
  size_t num_replicas = 0;
  for (int c = 0; c < configs; ++c) {
    SCOPED_TRACE("configuration " + std::to_string(c));
    Rng rng(static_cast<uint64_t>(c) + 1);
    const PlanConfig config = any_config(rng);
    std::vector<Step> all;
    for (int i = 0; i < steps; ++i) all.push_back(any_step(config, rng));
    const int64_t max_rows = rng.below(2) == 0 ? INT32_MAX : 128 * 1000 * 1000;
    Comparison comparison(config, std::move(all), max_rows);
    comparison.run();
    num_replicas += comparison.num_replicas();
    if (HasFailure()) return;
  }
  if (configs >= 100) EXPECT_GT(num_replicas, 10'000u) << "the tables say little";
}

// Recorded counts beside this program: planner_cases.bin, written by planner_case_file.
bench::CaseCounts recorded_cases() {
  const std::filesystem::path file =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "planner_cases.bin";
  return std::filesystem::exists(file) ? bench::read_case_file(file) : bench::CaseCounts{};
}

class RecordedCases : public testing::TestWithParam<std::tuple<PlannerKind, Objective, int, int>> {
};

TEST_P(RecordedCases, GiveTheHostsBytes) {
  MF_NEEDS_GPUS(1);
  const bench::CaseCounts cases = recorded_cases();
  if (cases.empty()) GTEST_SKIP() << "no planner_cases.bin beside this program";
  const auto [planner, objective, ranks, slots] = GetParam();
  Rng rng(11);
  for (const int32_t experts : {64, 128, 256}) {
    PlanConfig config;
    config.planner = planner;
    config.objective = objective;
    config.dims = {experts, ranks, slots, 128};
    config.cost =
        make_cost_model(machine_model("h200"), shape_of(config.dims), 128, CostScope::kForward);
    std::vector<Step> steps;
    const size_t every = by_size<size_t>(4, 60, 1);
    for (size_t i = 0; i < cases.size(); ++i) {
      if (static_cast<int32_t>(cases[i].size()) != experts || i % every != 0) continue;
      const std::vector<int32_t> counts(cases[i].begin(), cases[i].end());
      const int64_t rows = int64_t{ranks} * (i % 3 == 0 ? 2048 : i % 3 == 1 ? 16384 : 65536);
      const std::vector<int32_t> scaled = scale_counts(counts, rows, INT32_MAX);
      const std::vector<int64_t> totals(scaled.begin(), scaled.end());
      steps.push_back({rows_by_source(totals, ranks, rng), {}});
    }
    Comparison comparison(config, std::move(steps), int64_t{ranks} * 65536);
    comparison.run();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RecordedCases,
    testing::Values(std::tuple(PlannerKind::kMegaflux, Objective::kForward, 8, 2),
                    std::tuple(PlannerKind::kMegaflux, Objective::kForward, 8, 1),
                    std::tuple(PlannerKind::kMegaflux, Objective::kForward, 64, 2),
                    std::tuple(PlannerKind::kMegaflux, Objective::kBackward, 8, 2),
                    std::tuple(PlannerKind::kMegaflux, Objective::kCost, 16, 2),
                    std::tuple(PlannerKind::kMegaflux, Objective::kCost, 64, 2),
                    std::tuple(PlannerKind::kPaper, Objective::kForward, 8, 2),
                    std::tuple(PlannerKind::kPaper, Objective::kForward, 64, 1),
                    std::tuple(PlannerKind::kQuota, Objective::kForward, 8, 2)));

// Where the slots of one step are what the next one finds, replicas keep theirs: those of the same
// loads all of them, those of others some; shuffled, and with a double in a rank.
TEST(DevicePlanner, SlotsThatHoldWhatIsWantedKeepIt) {
  MF_NEEDS_GPUS(1);
  Rng rng(23);
  size_t num_kept = 0;
  for (int c = 0; c < by_size(60, 4, 400); ++c) {
    SCOPED_TRACE("configuration " + std::to_string(c));
    PlanConfig config = any_config(rng);
    config.planner = PlannerKind::kMegaflux;
    config.dims.replica_slots = std::max(config.dims.replica_slots, 1);
    const std::unique_ptr<Planner> host = make_planner(config);
    std::vector<Step> steps;
    for (int i = 0; i < 8; ++i) {
      Step step = any_step(config, rng);
      if (i % 2 == 1) step.rows = steps.back().rows;
      if (i > 0) step.resident = slots_left_by(*host, steps.back(), rng);
      steps.push_back(std::move(step));
    }
    Comparison comparison(config, std::move(steps));
    comparison.run();
    num_kept += comparison.num_kept();
    if (HasFailure()) return;
  }
  EXPECT_GT(num_kept, 100u) << "nothing is kept";
}

// The pre-gate asks what a copy costs though there is no slot for one.
TEST(DevicePlanner, CopiesThatTakeLongerThan64BitsSayAreWeighedAlike) {
  MF_NEEDS_GPUS(1);
  PlanConfig config;
  config.dims = {4, 2, 0, 1};
  config.objective = Objective::kCost;
  config.cost = CostModel{.block_ps = 1,
                          .weight_bytes = uint64_t{1} << 62,
                          .link_bytes_per_us = 1,
                          .pre_gate_ns = 1,
                          .copy_latency_ns = 1};
  for (config.dims.replica_slots = 0; config.dims.replica_slots < 3; ++config.dims.replica_slots) {
    Comparison comparison(config, {{{4000, 0, 0, 0, 0, 0, 0, 0}, {}}});
    comparison.run();
  }
}

TEST(DevicePlanner, ReplayedGraphPlansWhatTheLoadsSayNow) {
  MF_NEEDS_GPUS(1);
  Rng rng(5);
  PlanConfig config;
  config.dims = {128, 8, 2, 128};
  config.cost =
      make_cost_model(machine_model("h200"), shape_of(config.dims), 128, CostScope::kForward);
  std::vector<Step> steps;
  for (int i = 0; i < 3; ++i) steps.push_back(any_step(config, rng));
  Comparison comparison(config, steps);
  cudaStream_t stream = nullptr;
  MF_CUDA(cudaStreamCreate(&stream));
  const gpu::CapturedLaunch captured(stream, [&] {
    for (size_t i = 0; i < steps.size(); ++i) comparison.launch(i, stream);
  });
  for (int replay = 0; replay < 10; ++replay) {
    for (size_t i = 0; i < steps.size(); ++i) {
      Step step = any_step(config, rng);
      step.resident = steps[i].resident;  // the tables captured stay
      comparison.upload(i, step);
    }
    comparison.poison();
    captured.replay();
    MF_CUDA(cudaStreamSynchronize(stream));
    comparison.check_all();
  }
  MF_CUDA(cudaStreamDestroy(stream));
}

// One launch of `rows` under `config`, with the plan's bytes as they were left.
std::pair<DevicePlanReport, std::vector<std::byte>> plan_once(const PlanConfig& config,
                                                              const std::vector<int32_t>& rows,
                                                              int64_t max_rows) {
  const DevicePlanner planner(config, 0, max_rows);
  const DeviceArray<int32_t> loads{std::span<const int32_t>(rows)};
  const DeviceArray<std::byte> plan(planner.plan_bytes());
  const DeviceArray<DevicePlanReport> report(1);
  planner.launch(loads.data(), nullptr, plan.data(), report.data(), nullptr);
  return {report.download()[0], plan.download()};
}

void expect_refused(const PlanConfig& config, const std::vector<int32_t>& rows, int64_t max_rows) {
  const auto [report, plan] = plan_once(config, rows, max_rows);
  EXPECT_EQ(report.status, DevicePlanStatus::kTooManyRows);
  EXPECT_EQ(describe(report),
            "loads: a negative number of rows, 2^31 rows or more in all, or more blocks than "
            "max_rows of the planner allows");
  EXPECT_TRUE(
      std::all_of(plan.begin(), plan.end(), [](std::byte b) { return b == std::byte{0xcd}; }));
}

TEST(DevicePlanner, ImpossibleRowsAreRefusedAndNothingIsWritten) {
  MF_NEEDS_GPUS(1);
  PlanConfig config;
  config.dims = {4, 2, 1, 128};
  expect_refused(config, {1, 2, 3, 4, 5, 6, -1, 8}, INT32_MAX);
  expect_refused(config, {1 << 30, 0, 0, 0, 1 << 30, 0, 0, 0}, INT32_MAX);  // one expert
  expect_refused(config, {1 << 30, 1 << 30, 0, 0, 0, 0, 0, 0}, INT32_MAX);  // in all
  expect_refused(config, {1 << 30, 0, 0, 0, 0, 0, 0, 0}, 1'000'000);        // more than announced
  const auto [report, plan] =
      plan_once(config, {(1 << 30) - 1, 1 << 30, 0, 0, 0, 0, 0, 0}, INT32_MAX);
  EXPECT_EQ(report.status, DevicePlanStatus::kPlanned) << "2^31 - 1 rows are the most";
}

// Among experts of two owners, of which the second has those from `first` on.
void compare_with_one_hot_expert(PlannerKind planner, int32_t first, Rng& rng) {
  PlanConfig config;
  config.planner = planner;
  config.dims = {400, 2, 2, 1};  // blocks of one row
  for (int32_t e = 0; e < config.dims.num_experts; ++e) config.owner_of.push_back(e >= first);
  std::vector<Step> steps;
  for (const int32_t expert : {0, first - 1, first, first + 1, 399}) {
    std::vector<int64_t> totals(config.dims.num_experts, 0);
    totals[expert] = INT32_MAX;
    steps.push_back({rows_by_source(totals, config.dims.num_ranks, rng), {}});
  }
  Comparison comparison(config, std::move(steps));
  comparison.run();
  if (planner != PlannerKind::kFixed) EXPECT_GT(comparison.num_replicas(), 0u);
}

// It is sorted first all the same, also where the next expert is another warp's, or the same
// thread's in a second round of 384.
TEST(DevicePlanner, OneExpertHasAllBlocksThatThereCanBe) {
  MF_NEEDS_GPUS(1);
  Rng rng(31);
  for (const PlannerKind planner :
       {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota, PlannerKind::kFixed}) {
    for (const int32_t first : {11, 31, 383}) {
      SCOPED_TRACE(std::string(planner_name(planner)) + ", second owner from " +
                   std::to_string(first));
      compare_with_one_hot_expert(planner, first, rng);
    }
  }
}

void expect_unsupported(const PlanConfig& config, const std::string& words) {
  try {
    check_device_config(config);
    ADD_FAILURE() << "accepted, expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(DevicePlanner, LimitsAreNamed) {
  PlanConfig config;
  config.dims = {1025, 8, 2, 128};
  expect_unsupported(config, "num_experts: 1025, a device plans with at most 1024");
  config.dims = {256, 129, 2, 128};
  expect_unsupported(config, "num_ranks: 129, a device plans with at most 128");
  config.dims = {256, 8, 9, 128};
  expect_unsupported(config, "replica_slots: 9, a device plans with at most 8");
  config.dims = {256, 8, 2, 128};
  config.planner = PlannerKind::kUltraep;
  expect_unsupported(config, "planner: ultraep runs on the host only");
}

TEST(DevicePlanner, LargestProblemFits) {
  MF_NEEDS_GPUS(1);
  Rng rng(3);
  PlanConfig config;
  config.dims = {kMaxDeviceExperts, kMaxDeviceRanks, kMaxDeviceSlots, 128};
  config.cost =
      make_cost_model(machine_model("h200"), shape_of(config.dims), 128, CostScope::kForward);
  for (const Objective objective : {Objective::kForward, Objective::kCost}) {
    config.objective = objective;
    std::vector<int64_t> totals(config.dims.num_experts, 700);
    for (int i = 0; i < 100; ++i) totals[rng.below(1024)] = 128 * (10 + rng.below(3000));
    Comparison comparison(config, {{rows_by_source(totals, config.dims.num_ranks, rng), {}}});
    comparison.run();
    EXPECT_GT(comparison.num_replicas(), 100u);
  }
}

}  // namespace
}  // namespace megaflux
