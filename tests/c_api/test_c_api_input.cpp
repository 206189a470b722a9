// Bad arguments of the C ABI: an error that names them, nothing written, never a crash.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "megaflux/megaflux.h"

namespace {

constexpr int32_t kRows[] = {300, 60, 45, 300, 40, 45};

class CApiInput : public ::testing::Test {
 protected:
  void SetUp() override {
    megaflux_planner_config_init(&config, sizeof(config), nullptr);
    config.num_experts = 3;
    config.num_ranks = 2;
    config.replica_slots = 1;
    ASSERT_EQ(megaflux_planner_create(&config, &planner, nullptr), MEGAFLUX_OK);
    ASSERT_EQ(megaflux_plan_create(&plan, nullptr), MEGAFLUX_OK);
    step.struct_bytes = sizeof(step);
    step.rows = kRows;
    step.num_rows = 6;
    ASSERT_EQ(megaflux_planner_plan(planner, &step, plan, nullptr), MEGAFLUX_OK);
    before = bytes();
  }
  void TearDown() override {
    EXPECT_EQ(bytes(), before) << "a refused call changed the plan";
    megaflux_plan_destroy(plan);
    megaflux_planner_destroy(planner);
  }
  std::string bytes() const {
    const void* data = nullptr;
    size_t size = 0;
    EXPECT_EQ(megaflux_plan_bytes(plan, &data, &size, nullptr), MEGAFLUX_OK);
    return {static_cast<const char*>(data), size};
  }
  // The message of a call that must be refused as bad input.
  template <typename Call>
  static std::string refusal(Call&& call) {
    megaflux_error error{};
    error.struct_bytes = sizeof(error);
    EXPECT_EQ(call(&error), MEGAFLUX_BAD_INPUT);
    EXPECT_EQ(error.status, MEGAFLUX_BAD_INPUT);
    EXPECT_EQ(call(static_cast<megaflux_error*>(nullptr)), MEGAFLUX_BAD_INPUT);
    return error.message;
  }
  std::string create_refusal(const megaflux_planner_config& changed) const {
    megaflux_planner* out = nullptr;
    const std::string words =
        refusal([&](auto* e) { return megaflux_planner_create(&changed, &out, e); });
    EXPECT_EQ(out, nullptr);
    return words;
  }
  std::string plan_refusal(const megaflux_step& changed) const {
    return refusal([&](auto* e) { return megaflux_planner_plan(planner, &changed, plan, e); });
  }
  static std::string wrong_version(const char* name, size_t given, size_t known) {
    return std::string(name) + ": struct_bytes " + std::to_string(given) +
           " is no version this library knows, " + std::to_string(known) + " is";
  }

  megaflux_planner_config config{};
  megaflux_step step{};
  megaflux_planner* planner = nullptr;
  megaflux_plan* plan = nullptr;
  std::string before;
};

TEST_F(CApiInput, NullArguments) {
  megaflux_planner* out_planner = nullptr;
  int32_t number = 0;
  int64_t wide = 0;
  uint64_t hash = 0;
  const void* data = nullptr;
  size_t size = 0;
  megaflux_plan_info info{};
  megaflux_machine machine{};
  const auto is_null = [](const char* name, auto&& call) {
    EXPECT_EQ(refusal(call), std::string(name) + ": is null");
  };
  is_null("name", [&](auto* e) { return megaflux_parse_planner(nullptr, &number, e); });
  is_null("kind", [&](auto* e) { return megaflux_parse_planner("paper", nullptr, e); });
  is_null("name", [&](auto* e) { return megaflux_parse_objective(nullptr, &number, e); });
  is_null("objective", [&](auto* e) { return megaflux_parse_objective("cost", nullptr, e); });
  is_null("config", [&](auto* e) { return megaflux_planner_config_init(nullptr, 8, e); });
  is_null("machine", [&](auto* e) { return megaflux_machine_init(nullptr, 8, "h200", e); });
  is_null("name", [&](auto* e) { return megaflux_machine_init(&machine, 8, nullptr, e); });
  is_null("config", [&](auto* e) { return megaflux_planner_create(nullptr, &out_planner, e); });
  is_null("planner", [&](auto* e) { return megaflux_planner_create(&config, nullptr, e); });
  is_null("planner", [&](auto* e) { return megaflux_planner_hash(nullptr, &hash, e); });
  is_null("hash", [&](auto* e) { return megaflux_planner_hash(planner, nullptr, e); });
  is_null("planner", [&](auto* e) { return megaflux_planner_plan(nullptr, &step, plan, e); });
  is_null("step", [&](auto* e) { return megaflux_planner_plan(planner, nullptr, plan, e); });
  is_null("plan", [&](auto* e) { return megaflux_planner_plan(planner, &step, nullptr, e); });
  is_null("planner",
          [&](auto* e) { return megaflux_planner_adopt(nullptr, &step, "x", 1, plan, e); });
  is_null("step",
          [&](auto* e) { return megaflux_planner_adopt(planner, nullptr, "x", 1, plan, e); });
  is_null("bytes",
          [&](auto* e) { return megaflux_planner_adopt(planner, &step, nullptr, 1, plan, e); });
  is_null("plan",
          [&](auto* e) { return megaflux_planner_adopt(planner, &step, "x", 1, nullptr, e); });
  is_null("plan", [&](auto* e) { return megaflux_plan_create(nullptr, e); });
  is_null("plan", [&](auto* e) { return megaflux_plan_get_info(nullptr, &info, e); });
  is_null("info", [&](auto* e) { return megaflux_plan_get_info(plan, nullptr, e); });
  is_null("plan", [&](auto* e) { return megaflux_plan_bytes(nullptr, &data, &size, e); });
  is_null("bytes", [&](auto* e) { return megaflux_plan_bytes(plan, nullptr, &size, e); });
  is_null("num_bytes", [&](auto* e) { return megaflux_plan_bytes(plan, &data, nullptr, e); });
  is_null("plan",
          [&](auto* e) { return megaflux_plan_copy_instances(nullptr, nullptr, 0, &size, e); });
  is_null("plan", [&](auto* e) {
    return megaflux_plan_copy_i32(nullptr, MEGAFLUX_ORPHANS, &number, 1, &size, e);
  });
  is_null("plan", [&](auto* e) {
    return megaflux_plan_copy_i64(nullptr, MEGAFLUX_LOAD_ROWS, &wide, 1, &size, e);
  });
  megaflux_planner_destroy(nullptr);
  megaflux_plan_destroy(nullptr);
}

TEST_F(CApiInput, StructsOfAnUnknownVersion) {
  megaflux_planner_config other = config;
  other.struct_bytes = 12;
  EXPECT_EQ(create_refusal(other), wrong_version("config", 12, sizeof(other)));
  EXPECT_EQ(refusal([&](auto* e) { return megaflux_planner_config_init(&other, 8, e); }),
            wrong_version("config", 8, sizeof(other)));
  EXPECT_EQ(other.struct_bytes, 12u) << "nothing was written";
  megaflux_machine machine{};
  EXPECT_EQ(refusal([&](auto* e) { return megaflux_machine_init(&machine, 8, "h200", e); }),
            wrong_version("machine", 8, sizeof(machine)));
  megaflux_step other_step = step;
  other_step.struct_bytes = 0;
  EXPECT_EQ(plan_refusal(other_step), wrong_version("step", 0, sizeof(step)));
  megaflux_plan_info info{};
  info.struct_bytes = sizeof(info) + 8;
  EXPECT_EQ(refusal([&](auto* e) { return megaflux_plan_get_info(plan, &info, e); }),
            wrong_version("info", sizeof(info) + 8, sizeof(info)));
  megaflux_layer_shape shape{4, 64, 32, 2, 0};
  other = config;
  other.shape = &shape;
  EXPECT_EQ(create_refusal(other), wrong_version("shape", 4, sizeof(shape)));
  shape.struct_bytes = sizeof(shape);
  other.machine = &machine;
  EXPECT_EQ(create_refusal(other), wrong_version("machine", 0, sizeof(machine)));
  megaflux_error error{};
  error.struct_bytes = 3;
  std::strcpy(error.message, "poison");
  EXPECT_EQ(megaflux_planner_plan(planner, &step, plan, &error), MEGAFLUX_BAD_INPUT);
  EXPECT_STREQ(error.message, "poison") << "a struct of unknown size is not written to";
}

TEST_F(CApiInput, ReservedFieldsAreZero) {
  step.reserved = 1;
  EXPECT_EQ(plan_refusal(step), "step.reserved: 1 must be 0");
  const megaflux_layer_shape shape{sizeof(shape), 64, 32, 2, 0};
  megaflux_machine machine{};
  ASSERT_EQ(megaflux_machine_init(&machine, sizeof(machine), "h200", nullptr), MEGAFLUX_OK);
  machine.reserved = 2;
  config.shape = &shape;
  config.machine = &machine;
  EXPECT_EQ(create_refusal(config), "machine.reserved: 2 must be 0");
}

TEST_F(CApiInput, ConfigValues) {
  const auto refused = [&](auto&& change) {
    megaflux_planner_config changed = config;
    change(changed);
    return create_refusal(changed);
  };
  EXPECT_EQ(refused([](auto& c) { c.planner = 11; }), "planner: 11 is outside [0, 10]");
  EXPECT_EQ(refused([](auto& c) { c.planner = -1; }), "planner: -1 is outside [0, 10]");
  EXPECT_EQ(refused([](auto& c) { c.objective = 3; }), "objective: 3 is outside [0, 2]");
  EXPECT_EQ(refused([](auto& c) { c.num_experts = 0; }), "num_experts: 0 is outside [1, 4096]");
  EXPECT_EQ(refused([](auto& c) { c.num_ranks = 1025; }), "num_ranks: 1025 is outside [1, 1024]");
  EXPECT_NE(refused([](auto& c) { c.objective = MEGAFLUX_OBJECTIVE_COST; }).find("cost"),
            std::string::npos);
  EXPECT_EQ(refused([](auto& c) { c.num_owner_of = 3; }), "owner_of: is null with 3 elements");
  EXPECT_EQ(refused([](auto& c) { c.num_speed = 1; }), "speed: is null with 1 elements");
  static constexpr int32_t kOwners[] = {0, 2, 1};
  EXPECT_NE(refused([](auto& c) {
              c.owner_of = kOwners;
              c.num_owner_of = 3;
            }).find("owner_of[1]"),
            std::string::npos);
  static constexpr megaflux_layer_shape kShape{sizeof(kShape), 64, 32, 1, 0};
  EXPECT_EQ(refused([](auto& c) { c.shape = &kShape; }),
            "shape.element_bytes: 1 is neither 2 nor 4");
  EXPECT_EQ(refusal([](auto* e) {
              megaflux_machine machine{};
              return megaflux_machine_init(&machine, sizeof(machine), "abacus", e);
            }),
            "machine: 'abacus' is not known; known machines: h200");
}

TEST_F(CApiInput, StepValues) {
  megaflux_step changed = step;
  changed.num_rows = 5;
  EXPECT_EQ(plan_refusal(changed), "loads: 5 counts given, 2 ranks x 3 experts expected");
  changed = step;
  changed.rows = nullptr;
  EXPECT_EQ(plan_refusal(changed), "step.rows: is null with 6 elements");
  const std::vector<int32_t> negative{300, 60, 45, 300, -40, 45};
  changed = step;
  changed.rows = negative.data();
  EXPECT_EQ(plan_refusal(changed), "loads: rank 1, expert 1: -40 is negative");
  const std::vector<int32_t> huge(6, 2'000'000'000);
  changed.rows = huge.data();
  EXPECT_NE(plan_refusal(changed).find("2147483647"), std::string::npos);
  const std::vector<int32_t> resident{0};
  changed = step;
  changed.resident = resident.data();
  changed.num_resident = 1;
  EXPECT_NE(plan_refusal(changed).find("resident"), std::string::npos);
}

TEST_F(CApiInput, ArraysAndCapacities) {
  int32_t values[3] = {-9, -9, -9};
  EXPECT_EQ(refusal([&](auto* e) {
              return megaflux_plan_copy_i32(plan, MEGAFLUX_OWNER_OF, values, 2, nullptr, e);
            }),
            "capacity: 2, there are 3 elements");
  EXPECT_EQ(values[0], -9);
  EXPECT_EQ(
      refusal([&](auto* e) { return megaflux_plan_copy_i32(plan, 10, values, 3, nullptr, e); }),
      "which: 10 is outside [0, 9]");
  EXPECT_EQ(
      refusal([&](auto* e) { return megaflux_plan_copy_i64(plan, -1, nullptr, 0, nullptr, e); }),
      "which: -1 is outside [0, 4]");
  megaflux_instance instance{};
  EXPECT_EQ(refusal([&](auto* e) {
              return megaflux_plan_copy_instances(plan, &instance, 1, nullptr, e);
            }),
            "capacity: 1, there are 4 elements");
}

TEST_F(CApiInput, PlansFromOutside) {
  std::string data = bytes();
  const auto adopt = [&](auto* e) {
    return megaflux_planner_adopt(planner, &step, data.data(), data.size(), plan, e);
  };
  data[0] = 'X';
  EXPECT_EQ(refusal(adopt), "plan: the first four bytes are not MFPL");
  data = bytes();
  data[data.size() - 1] = 1;
  EXPECT_NE(refusal(adopt).find("hash"), std::string::npos);
  data = bytes();
  const std::vector<int32_t> other_rows{900, 60, 45, 300, 40, 45};
  step.rows = other_rows.data();
  EXPECT_EQ(refusal(adopt),
            "plan from outside is not legal: expert 0: 5 blocks given out, 10 hold its 1200 rows");
}

TEST_F(CApiInput, LongMessagesAreCut) {
  const std::string name(2000, 'x');
  megaflux_error error{};
  error.struct_bytes = sizeof(error);
  int32_t kind = 0;
  EXPECT_EQ(megaflux_parse_planner(name.c_str(), &kind, &error), MEGAFLUX_BAD_INPUT);
  EXPECT_EQ(std::strlen(error.message), sizeof(error.message) - 1);
}

TEST_F(CApiInput, EmptyHandleHoldsNoPlan) {
  megaflux_plan* empty = nullptr;
  ASSERT_EQ(megaflux_plan_create(&empty, nullptr), MEGAFLUX_OK);
  megaflux_plan_info info{};
  info.struct_bytes = sizeof(info);
  EXPECT_EQ(refusal([&](auto* e) { return megaflux_plan_get_info(empty, &info, e); }),
            "plan: the handle holds no plan");
  EXPECT_EQ(refusal([&](auto* e) {
              return megaflux_plan_copy_i64(empty, MEGAFLUX_LOAD_ROWS, nullptr, 0, nullptr, e);
            }),
            "plan: the handle holds no plan");
  size_t count = 99;
  EXPECT_EQ(megaflux_plan_copy_i32(empty, MEGAFLUX_ORPHANS, nullptr, 0, &count, nullptr),
            MEGAFLUX_OK);
  EXPECT_EQ(count, 0u);
  megaflux_plan_destroy(empty);
}

}  // namespace
