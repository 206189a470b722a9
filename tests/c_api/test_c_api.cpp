#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "c_api/smoke.h"
#include "megaflux/megaflux.h"
#include "megaflux/plan/planner.h"

namespace megaflux {
namespace {

using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;

megaflux_error no_error() {
  megaflux_error error{};
  error.struct_bytes = sizeof(error);
  std::strcpy(error.message, "untouched");
  return error;
}

// Calls an entry point; "ok", or "STATUS: MESSAGE", with the status of the struct checked too.
template <typename Call>
std::string outcome(Call&& call) {
  megaflux_error error = no_error();
  const megaflux_status status = call(&error);
  if (status == MEGAFLUX_OK) {
    EXPECT_STREQ(error.message, "untouched");
    return "ok";
  }
  EXPECT_EQ(error.status, status);
  EXPECT_EQ(call(static_cast<megaflux_error*>(nullptr)), status)
      << "the same without a place for the message";
  return std::string(megaflux_status_name(status)) + ": " + error.message;
}

struct PlannerDeleter {
  void operator()(megaflux_planner* planner) const { megaflux_planner_destroy(planner); }
};
struct PlanDeleter {
  void operator()(megaflux_plan* plan) const { megaflux_plan_destroy(plan); }
};
using PlannerPtr = std::unique_ptr<megaflux_planner, PlannerDeleter>;
using PlanPtr = std::unique_ptr<megaflux_plan, PlanDeleter>;

// The example of megaflux.h.
megaflux_planner_config example_config() {
  megaflux_planner_config config{};
  EXPECT_EQ(megaflux_planner_config_init(&config, sizeof(config), nullptr), MEGAFLUX_OK);
  config.num_experts = 3;
  config.num_ranks = 2;
  config.replica_slots = 1;
  return config;
}

const Ints kRows{300, 60, 45, 300, 40, 45};

megaflux_step step_of(const Ints& rows, const Ints& resident = {}) {
  megaflux_step step{};
  step.struct_bytes = sizeof(step);
  step.rows = rows.data();
  step.num_rows = rows.size();
  step.resident = resident.data();
  step.num_resident = resident.size();
  return step;
}

PlannerPtr make_planner_of(const megaflux_planner_config& config) {
  megaflux_planner* planner = nullptr;
  EXPECT_EQ(outcome([&](auto* e) { return megaflux_planner_create(&config, &planner, e); }), "ok");
  return PlannerPtr(planner);
}

PlanPtr make_plan() {
  megaflux_plan* plan = nullptr;
  EXPECT_EQ(megaflux_plan_create(&plan, nullptr), MEGAFLUX_OK);
  return PlanPtr(plan);
}

Ints array_i32(const megaflux_plan* plan, megaflux_array_i32 which) {
  size_t count = 0;
  EXPECT_EQ(megaflux_plan_copy_i32(plan, which, nullptr, 0, &count, nullptr), MEGAFLUX_OK);
  Ints values(count, -77);
  EXPECT_EQ(megaflux_plan_copy_i32(plan, which, values.data(), count, nullptr, nullptr),
            MEGAFLUX_OK);
  return values;
}

Longs array_i64(const megaflux_plan* plan, megaflux_array_i64 which) {
  size_t count = 0;
  EXPECT_EQ(megaflux_plan_copy_i64(plan, which, nullptr, 0, &count, nullptr), MEGAFLUX_OK);
  Longs values(count, -77);
  EXPECT_EQ(megaflux_plan_copy_i64(plan, which, values.data(), count, nullptr, nullptr),
            MEGAFLUX_OK);
  return values;
}

std::vector<unsigned char> bytes_of(const megaflux_plan* plan) {
  const void* bytes = nullptr;
  size_t count = 0;
  EXPECT_EQ(megaflux_plan_bytes(plan, &bytes, &count, nullptr), MEGAFLUX_OK);
  const auto* first = static_cast<const unsigned char*>(bytes);
  return {first, first + count};
}

megaflux_plan_info info_of(const megaflux_plan* plan) {
  megaflux_plan_info info{};
  info.struct_bytes = sizeof(info);
  EXPECT_EQ(megaflux_plan_get_info(plan, &info, nullptr), MEGAFLUX_OK);
  return info;
}

TEST(CApi, PlainCProgram) {
  char message[256] = "";
  EXPECT_EQ(megaflux_smoke(message, sizeof(message)), 0) << message;
}

TEST(CApi, VersionsAndNames) {
  EXPECT_EQ(megaflux_abi_version(), uint32_t{MEGAFLUX_ABI_VERSION});
  EXPECT_STREQ(megaflux_version(), MF_VERSION);
  EXPECT_STREQ(megaflux_status_name(MEGAFLUX_OK), "ok");
  EXPECT_STREQ(megaflux_status_name(MEGAFLUX_NO_LEGAL_PLAN), "no legal plan");
  EXPECT_STREQ(megaflux_status_name(-1), "unknown status");
  EXPECT_STREQ(megaflux_status_name(99), "unknown status");
  int32_t value = -5;
  EXPECT_EQ(megaflux_parse_planner("quota", &value, nullptr), MEGAFLUX_OK);
  EXPECT_EQ(value, MEGAFLUX_PLANNER_QUOTA);
  EXPECT_EQ(megaflux_parse_objective("cost", &value, nullptr), MEGAFLUX_OK);
  EXPECT_EQ(value, MEGAFLUX_OBJECTIVE_COST);
  EXPECT_EQ(
      outcome([&](auto* e) { return megaflux_parse_planner("eager", &value, e); }),
      "bad input: planner: 'eager' is not one of megaflux, paper, quota, fixed, ultraep, eplb, "
      "lplb, llep, echo, moonep, broadcast");
  EXPECT_EQ(value, MEGAFLUX_OBJECTIVE_COST) << "nothing was changed";
}

TEST(CApi, EnumsAreTheLibrarysOwn) {
  for (const auto& [name, kind] :
       std::vector<std::pair<const char*, int32_t>>{{"megaflux", MEGAFLUX_PLANNER_MEGAFLUX},
                                                    {"paper", MEGAFLUX_PLANNER_PAPER},
                                                    {"quota", MEGAFLUX_PLANNER_QUOTA},
                                                    {"fixed", MEGAFLUX_PLANNER_FIXED},
                                                    {"ultraep", MEGAFLUX_PLANNER_ULTRAEP},
                                                    {"eplb", MEGAFLUX_PLANNER_EPLB},
                                                    {"lplb", MEGAFLUX_PLANNER_LPLB},
                                                    {"llep", MEGAFLUX_PLANNER_LLEP},
                                                    {"echo", MEGAFLUX_PLANNER_ECHO},
                                                    {"moonep", MEGAFLUX_PLANNER_MOONEP},
                                                    {"broadcast", MEGAFLUX_PLANNER_BROADCAST}}) {
    EXPECT_EQ(static_cast<int32_t>(parse_planner(name)), kind);
  }
  for (const auto& [name, objective] :
       std::vector<std::pair<const char*, int32_t>>{{"forward", MEGAFLUX_OBJECTIVE_FORWARD},
                                                    {"backward", MEGAFLUX_OBJECTIVE_BACKWARD},
                                                    {"cost", MEGAFLUX_OBJECTIVE_COST}}) {
    EXPECT_EQ(static_cast<int32_t>(parse_objective(name)), objective);
  }
  EXPECT_EQ(static_cast<int32_t>(GateDecision::kNotAsked), MEGAFLUX_GATE_NOT_ASKED);
  EXPECT_EQ(static_cast<int32_t>(GateDecision::kReplicate), MEGAFLUX_GATE_REPLICATE);
  EXPECT_EQ(static_cast<int32_t>(GateDecision::kFixed), MEGAFLUX_GATE_FIXED);
  EXPECT_EQ(static_cast<int32_t>(GateDecision::kPreGate), MEGAFLUX_GATE_PRE_GATE);
  EXPECT_EQ(static_cast<int32_t>(GateDecision::kFewRows), MEGAFLUX_GATE_FEW_ROWS);
}

TEST(CApi, PlansLikeTheLibrary) {
  const megaflux_planner_config config = example_config();
  const PlannerPtr planner = make_planner_of(config);
  const PlanPtr plan = make_plan();
  const megaflux_step step = step_of(kRows);
  ASSERT_EQ(megaflux_planner_plan(planner.get(), &step, plan.get(), nullptr), MEGAFLUX_OK);

  PlanConfig own;
  own.dims = {3, 2, 1, 128};
  Plan expected;
  PlanReport report;
  make_planner(own)->plan(LoadTable(2, 3, kRows), {}, expected, report);
  const auto bytes = bytes_of(plan.get());
  ASSERT_EQ(bytes.size(), expected.bytes().size());
  EXPECT_EQ(std::memcmp(bytes.data(), expected.bytes().data(), bytes.size()), 0);
  uint64_t hash = 0;
  EXPECT_EQ(megaflux_planner_hash(planner.get(), &hash, nullptr), MEGAFLUX_OK);
  EXPECT_EQ(hash, config_hash(own));

  const megaflux_plan_info info = info_of(plan.get());
  EXPECT_EQ(info.hash, expected.hash());
  EXPECT_EQ(info.num_experts, 3);
  EXPECT_EQ(info.num_ranks, 2);
  EXPECT_EQ(info.replica_slots, 1);
  EXPECT_EQ(info.block_rows, 128);
  EXPECT_EQ(info.num_instances, 4);
  EXPECT_EQ(info.num_copies, 1);
  EXPECT_EQ(info.max_blocks, 4);
  EXPECT_EQ(info.max_copies, 2);
  EXPECT_EQ(info.tau, report.tau);
  EXPECT_EQ(info.gate, MEGAFLUX_GATE_NOT_ASKED);
  EXPECT_EQ(info.predicted_ns, -1);
  EXPECT_EQ(info.predicted_fixed_ns, -1);
}

TEST(CApi, ReadsEverythingOfAPlan) {
  const megaflux_planner_config config = example_config();
  const PlannerPtr planner = make_planner_of(config);
  const PlanPtr plan = make_plan();
  const megaflux_step step = step_of(kRows);
  ASSERT_EQ(megaflux_planner_plan(planner.get(), &step, plan.get(), nullptr), MEGAFLUX_OK);
  std::vector<megaflux_instance> instances(4);
  size_t count = 0;
  ASSERT_EQ(megaflux_plan_copy_instances(plan.get(), instances.data(), 4, &count, nullptr),
            MEGAFLUX_OK);
  ASSERT_EQ(count, 4u);
  const auto fields = [&](size_t i) {
    const megaflux_instance& at = instances[i];
    return Ints{at.expert, at.rank, at.slot, at.first_block, at.num_blocks, at.rows};
  };
  EXPECT_EQ(fields(0), (Ints{0, 0, -1, 0, 3, 384}));
  EXPECT_EQ(fields(1), (Ints{0, 1, 0, 3, 2, 216}));
  EXPECT_EQ(fields(2), (Ints{1, 0, -1, 0, 1, 100}));
  EXPECT_EQ(fields(3), (Ints{2, 1, -1, 0, 1, 90}));

  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_OWNER_OF), (Ints{0, 0, 1}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_SLOT_EXPERT), (Ints{-1, 0}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_SLOT_RESIDENT), (Ints{0, 0}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_EXPERTS_TO_COPY), (Ints{-1, 0}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_SOURCE_SLOTS), (Ints{-1, 0}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_RANK_BEGIN), (Ints{0, 3, 5}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_PHYSICAL_TO_LOGICAL), (Ints{0, 1, -1, 2, 0}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_LOGICAL_TO_PHYSICAL), (Ints{0, 4, 1, -1, 3, -1}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_LOGICAL_REPLICA_COUNT), (Ints{2, 1, 1}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_ORPHANS), Ints{});
  EXPECT_EQ(array_i64(plan.get(), MEGAFLUX_LOAD_BLOCKS), (Longs{4, 3}));
  EXPECT_EQ(array_i64(plan.get(), MEGAFLUX_LOAD_ROWS), (Longs{484, 306}));
  EXPECT_EQ(array_i64(plan.get(), MEGAFLUX_PADDED_ROWS), (Longs{512, 384}));
  EXPECT_EQ(array_i64(plan.get(), MEGAFLUX_FINISH), (Longs{4, 3}));
  EXPECT_EQ(array_i64(plan.get(), MEGAFLUX_TRAFFIC_ROWS), (Longs{360, 45, 124, 261}));
}

TEST(CApi, EveryFieldOfTheConfigArrives) {
  megaflux_planner_config config = example_config();
  config.planner = MEGAFLUX_PLANNER_PAPER;
  config.objective = MEGAFLUX_OBJECTIVE_COST;
  config.block_rows = 64;
  config.lambda_blocks = 3;
  config.slack_ppm = 20'000;
  config.min_copy_blocks = 2;
  config.min_rows_per_replica = 5;
  config.min_forward_rows = 100;
  config.pool_rows = 6400;
  config.covers_backward = 1;
  const Ints owner_of{1, 0, 1};
  const Ints domain_of{4, 4};
  const std::vector<uint8_t> active{1, 1};
  const Ints base_blocks{2, 7};
  const std::vector<uint16_t> speed{1024, 900};
  config.owner_of = owner_of.data();
  config.num_owner_of = 3;
  config.domain_of = domain_of.data();
  config.num_domain_of = 2;
  config.active = active.data();
  config.num_active = 2;
  config.base_blocks = base_blocks.data();
  config.num_base_blocks = 2;
  config.speed = speed.data();
  config.num_speed = 2;
  const megaflux_layer_shape shape{sizeof(shape), 64, 32, 4, 1};
  megaflux_machine machine{};
  ASSERT_EQ(megaflux_machine_init(&machine, sizeof(machine), "h200", nullptr), MEGAFLUX_OK);
  machine.gflops = 1234;
  machine.send_mb_per_s = 4321;
  machine.copy_latency_ns = 77;
  config.shape = &shape;
  config.machine = &machine;

  PlanConfig own;
  own.planner = PlannerKind::kPaper;
  own.objective = Objective::kCost;
  own.dims = {3, 2, 1, 64};
  own.lambda_blocks = 3;
  own.slack_ppm = 20'000;
  own.min_copy_blocks = 2;
  own.min_rows_per_replica = 5;
  own.min_forward_rows = 100;
  own.owner_of = owner_of;
  own.domain_of = domain_of;
  own.active = active;
  own.base_blocks = base_blocks;
  own.speed = speed;
  LayerShape layer;
  layer.num_experts = 3;
  layer.topk = 1;
  layer.hidden = 64;
  layer.inter = 32;
  layer.dtype = DType::kFp32;
  layer.has_bias = true;
  MachineModel model = machine_model("h200");
  model.gflops = 1234;
  model.send_mb_per_s = 4321;
  model.copy_latency_ns = 77;
  own.cost = make_cost_model(model, layer, 64, CostScope::kForwardBackward, 6400);
  const auto hash_of = [](const megaflux_planner_config& from) {
    uint64_t hash = 0;
    EXPECT_EQ(megaflux_planner_hash(make_planner_of(from).get(), &hash, nullptr), MEGAFLUX_OK);
    return hash;
  };
  EXPECT_EQ(hash_of(config), config_hash(own));
  // A program that was built before owners had a rate of their own.
  machine.struct_bytes = offsetof(megaflux_machine, send_mb_per_s);
  model.send_mb_per_s = 0;
  own.cost = make_cost_model(model, layer, 64, CostScope::kForwardBackward, 6400);
  EXPECT_EQ(hash_of(config), config_hash(own));
  machine.plan_ns = 5;
  machine.send_mb_per_s = 99;
  constexpr size_t kOldBytes = offsetof(megaflux_machine, send_mb_per_s);
  ASSERT_EQ(megaflux_machine_init(&machine, kOldBytes, "h200", nullptr), MEGAFLUX_OK);
  EXPECT_EQ(machine.struct_bytes, kOldBytes);
  EXPECT_EQ(machine.plan_ns, MachineModel{}.plan_ns);
  EXPECT_EQ(machine.send_mb_per_s, 99) << "written behind the struct";
  config.machine = nullptr;
  own.cost = make_cost_model(machine_model("h200"), layer, 64, CostScope::kForwardBackward, 6400);
  EXPECT_EQ(hash_of(config), config_hash(own));

  const PlannerPtr planner = make_planner_of(config);
  const PlanPtr plan = make_plan();
  const megaflux_step step = step_of(kRows);
  ASSERT_EQ(megaflux_planner_plan(planner.get(), &step, plan.get(), nullptr), MEGAFLUX_OK);
  EXPECT_GE(info_of(plan.get()).predicted_ns, 0);
  EXPECT_GE(info_of(plan.get()).predicted_fixed_ns, 0);
}

TEST(CApi, DefaultsAreTheLibrarys) {
  PlanConfig own;
  own.dims = {3, 2, 1, own.dims.block_rows};
  uint64_t hash = 0;
  EXPECT_EQ(megaflux_planner_hash(make_planner_of(example_config()).get(), &hash, nullptr),
            MEGAFLUX_OK);
  EXPECT_EQ(hash, config_hash(own));
}

TEST(CApi, ResidentSlotsMoveNothing) {
  const PlannerPtr planner = make_planner_of(example_config());
  const PlanPtr plan = make_plan();
  const Ints resident{-1, 0};
  const megaflux_step step = step_of(kRows, resident);
  ASSERT_EQ(megaflux_planner_plan(planner.get(), &step, plan.get(), nullptr), MEGAFLUX_OK);
  EXPECT_EQ(info_of(plan.get()).num_copies, 0);
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_SLOT_RESIDENT), (Ints{0, 1}));
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_EXPERTS_TO_COPY), (Ints{-1, -1}));
}

TEST(CApi, OrphansAreListedAndTheHandleHoldsNoPlan) {
  // IC_36: rows for an expert whose owner is gone.
  megaflux_planner_config config = example_config();
  const std::vector<uint8_t> active{1, 0};
  config.active = active.data();
  config.num_active = 2;
  const PlannerPtr planner = make_planner_of(config);
  const PlanPtr plan = make_plan();
  const Ints without{300, 60, 0, 300, 40, 0};
  megaflux_step step = step_of(without);
  ASSERT_EQ(megaflux_planner_plan(planner.get(), &step, plan.get(), nullptr), MEGAFLUX_OK);
  step = step_of(kRows);
  EXPECT_EQ(
      outcome([&](auto* e) { return megaflux_planner_plan(planner.get(), &step, plan.get(), e); }),
      "no legal plan: no legal plan: experts with rows have an inactive owner");
  EXPECT_EQ(array_i32(plan.get(), MEGAFLUX_ORPHANS), Ints{2});
  int32_t value = 0;
  EXPECT_EQ(outcome([&](auto* e) {
              return megaflux_plan_copy_i32(plan.get(), MEGAFLUX_OWNER_OF, &value, 1, nullptr, e);
            }),
            "bad input: plan: the handle holds no plan");
}

}  // namespace
}  // namespace megaflux
