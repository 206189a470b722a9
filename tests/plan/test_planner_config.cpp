// Names, configuration checks and hashes, and the sizes that must work or be refused by name.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/plan/legality.h"
#include "plan/planner_fixture.h"

namespace megaflux {
namespace {

PlanConfig base_config() {
  PlanConfig config;
  config.dims = {8, 4, 2, 128};
  return config;
}

// What `action` throws; empty if it does not.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(PlannerConfig, names_go_both_ways_and_unknown_ones_list_the_known) {
  for (size_t i = 0; i < planner_names().size(); ++i) {
    const PlannerKind kind = parse_planner(planner_names()[i]);
    EXPECT_EQ(static_cast<size_t>(kind), i);
    EXPECT_EQ(planner_name(kind), planner_names()[i]);
    EXPECT_EQ(is_baseline(kind), i > static_cast<size_t>(PlannerKind::kFixed));
  }
  for (const Objective objective : {Objective::kForward, Objective::kBackward, Objective::kCost}) {
    EXPECT_EQ(parse_objective(objective_name(objective)), objective);
  }
  EXPECT_EQ(error_of([] { parse_planner("oracle"); }),
            "planner: 'oracle' is not one of megaflux, paper, quota, fixed, ultraep, eplb, lplb, "
            "llep, echo, moonep, broadcast");
  EXPECT_EQ(error_of([] { parse_objective(""); }),
            "objective: '' is not one of forward, backward, cost");
  EXPECT_EQ(gate_name(GateDecision::kPreGate), "pre-gate");
}

TEST(PlannerConfig, every_bad_field_is_named_with_value_and_limit) {
  struct Bad {
    std::function<void(PlanConfig&)> spoil;
    std::string words;
  };
  const std::vector<Bad> bad = {
      {[](PlanConfig& c) { c.dims.num_experts = 0; }, "num_experts: 0 is outside [1, 4096]"},
      {[](PlanConfig& c) { c.dims.num_ranks = 1025; }, "num_ranks: 1025 is outside [1, 1024]"},
      {[](PlanConfig& c) { c.lambda_blocks = -1; }, "lambda_blocks: -1"},
      {[](PlanConfig& c) { c.slack_ppm = -5; }, "slack_ppm: -5"},
      {[](PlanConfig& c) { c.min_copy_blocks = 0; }, "min_copy_blocks: 0"},
      {[](PlanConfig& c) { c.min_rows_per_replica = 0; }, "min_rows_per_replica: 0"},
      {[](PlanConfig& c) { c.min_forward_rows = -1; }, "min_forward_rows: -1"},
      {[](PlanConfig& c) {
         c.owner_of = {0, 1};
       },
       "owner_of: 2 entries, 8 are needed"},
      {[](PlanConfig& c) { c.owner_of.assign(8, 4); }, "owner_of[0]: 4 is outside [0, 3]"},
      {[](PlanConfig& c) { c.domain_of = {0}; }, "domain_of: 1 entries, 4 are needed"},
      {[](PlanConfig& c) {
         c.domain_of = {0, 0, -2, 0};
       },
       "domain_of[2]: -2"},
      {[](PlanConfig& c) {
         c.active = {1, 1};
       },
       "active: 2 entries"},
      {[](PlanConfig& c) {
         c.active = {1, 2, 1, 1};
       },
       "active[1]: 2 is outside [0, 1]"},
      {[](PlanConfig& c) {
         c.active = {0, 0, 0, 0};
       },
       "all 4 ranks are inactive"},
      {[](PlanConfig& c) {
         c.base_blocks = {0, 0, 0, -7};
       },
       "base_blocks[3]: -7"},
      {[](PlanConfig& c) { c.base_blocks.assign(4, 1 << 24); }, "base_blocks[0]: 16777216"},
      {[](PlanConfig& c) {
         c.speed = {0, 1, 1, 1};
       },
       "speed[0]: 0 is outside [1, 65535]"},
      {[](PlanConfig& c) { c.objective = Objective::kCost; }, "cost objective needs a shape"},
      {[](PlanConfig& c) { c.cost = CostModel{.link_bytes_per_us = 1}; }, "cost.block_ps: 0"},
      {[](PlanConfig& c) { c.cost = CostModel{.block_ps = 1}; }, "cost.link_bytes_per_us: 0"},
  };
  for (const Bad& one : bad) {
    PlanConfig config = base_config();
    one.spoil(config);
    const std::string words = error_of([&] { check_config(config); });
    EXPECT_NE(words.find(one.words), std::string::npos) << "'" << words << "' for " << one.words;
    EXPECT_NE(error_of([&] { make_planner(config); }), "");
  }
  EXPECT_EQ(error_of([] { check_config(base_config()); }), "");
}

TEST(PlannerConfig, loads_and_residents_must_fit) {
  const auto planner = make_planner(base_config());
  Plan plan;
  PlanReport report;
  const auto plan_with = [&](int32_t num_ranks, size_t num_experts, std::vector<int32_t> resident) {
    return error_of([&] {
      planner->plan(loads_of(num_ranks, std::vector<int64_t>(num_experts, 5)), resident, plan,
                    report);
    });
  };
  EXPECT_EQ(plan_with(4, 7, {}), "loads: 7 experts, the planner was made for 8");
  EXPECT_EQ(plan_with(3, 8, {}), "loads: 3 source ranks, the planner was made for 4");
  EXPECT_EQ(plan_with(4, 8, {1, 2}), "resident: 2 entries, P s = 8 are needed");
  EXPECT_EQ(plan_with(4, 8, std::vector<int32_t>(8, 8)), "resident[0]: 8 is outside [-1, 8)");
  EXPECT_TRUE(plan.empty()) << "nothing was written";
}

TEST(PlannerConfig, the_hash_sees_every_field) {
  const std::vector<std::function<void(PlanConfig&)>> changes = {
      [](PlanConfig& c) { c.planner = PlannerKind::kPaper; },
      [](PlanConfig& c) { c.objective = Objective::kBackward; },
      [](PlanConfig& c) { c.dims.replica_slots = 3; },
      [](PlanConfig& c) { c.dims.block_rows = 64; },
      [](PlanConfig& c) { c.lambda_blocks = 13; },
      [](PlanConfig& c) { c.slack_ppm = 1; },
      [](PlanConfig& c) { c.min_copy_blocks = 2; },
      [](PlanConfig& c) { c.min_rows_per_replica = 2; },
      [](PlanConfig& c) { c.min_forward_rows = 1; },
      [](PlanConfig& c) { c.owner_of = {0, 0, 1, 1, 2, 2, 2, 3}; },
      [](PlanConfig& c) {
        c.domain_of = {0, 0, 1, 1};
      },
      [](PlanConfig& c) {
        c.active = {1, 1, 1, 0};
      },
      [](PlanConfig& c) {
        c.base_blocks = {0, 0, 1, 0};
      },
      [](PlanConfig& c) {
        c.speed = {1024, 1024, 1024, 1000};
      },
      [](PlanConfig& c) { c.cost = CostModel{.block_ps = 1, .link_bytes_per_us = 1}; },
      [](PlanConfig& c) { c.cost = CostModel{.block_ps = 2, .link_bytes_per_us = 1}; },
      [](PlanConfig& c) {
        c.cost = CostModel{.block_ps = 1, .link_bytes_per_us = 1, .pool_blocks = 9};
      },
      [](PlanConfig& c) {
        c.cost = CostModel{.block_ps = 1, .link_bytes_per_us = 1, .send_bytes_per_us = 2};
      },
  };
  std::vector<uint64_t> hashes = {config_hash(base_config())};
  for (const auto& change : changes) {
    PlanConfig config = base_config();
    change(config);
    const uint64_t hash = config_hash(config);
    for (const uint64_t other : hashes) EXPECT_NE(hash, other) << "change " << hashes.size();
    hashes.push_back(hash);
  }
  PlanConfig spelled_out = base_config();
  spelled_out.owner_of = {0, 0, 1, 1, 2, 2, 3, 3};
  spelled_out.domain_of.assign(4, 0);
  spelled_out.active.assign(4, 1);
  spelled_out.base_blocks.assign(4, 0);
  spelled_out.speed.assign(4, 1024);
  EXPECT_EQ(config_hash(spelled_out), hashes[0]) << "defaults hash like the tables they stand for";
  spelled_out.cost = CostModel{.block_ps = 1, .link_bytes_per_us = 3, .send_bytes_per_us = 3};
  PlanConfig link_stands_for_both = spelled_out;
  link_stands_for_both.cost->send_bytes_per_us = 0;
  EXPECT_EQ(config_hash(spelled_out), config_hash(link_stands_for_both));
}

void expect_legal(int32_t num_experts, int32_t num_ranks, int32_t slots, PlannerKind kind) {
  PlanConfig config;
  config.planner = kind;
  config.dims = {num_experts, num_ranks, slots, 16};
  std::vector<int64_t> totals;
  for (int32_t e = 0; e < num_experts; ++e) totals.push_back(e % 5 == 0 ? 700 - e % 7 : e % 90);
  const LoadTable loads = loads_of(num_ranks, totals);
  const Planned planned = plan_once(config, loads);
  EXPECT_TRUE(check_plan(planned.plan, loads, config).empty())
      << planner_name(kind) << " E " << num_experts << " P " << num_ranks;
}

TEST(PlannerConfig, IC_20_experts_need_not_be_a_multiple_of_ranks) {
  for (const auto& [num_experts, num_ranks] :
       {std::pair{10, 4}, {160, 6}, {256, 6}, {7, 8}, {1, 3}}) {
    for (const PlannerKind kind :
         {PlannerKind::kMegaflux, PlannerKind::kPaper, PlannerKind::kQuota, PlannerKind::kFixed}) {
      for (const int32_t slots : {0, 1, 2, 7}) expect_legal(num_experts, num_ranks, slots, kind);
    }
  }
}

TEST(PlannerConfig, IC_22_many_sizes_work_and_the_others_are_refused_by_name) {
  for (const int32_t num_experts : {1, 3, 10, 64, 96, 160, 384, 512, 896, 1024, 1025, 2048}) {
    for (const int32_t num_ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 72}) {
      expect_legal(num_experts, num_ranks, 2, PlannerKind::kMegaflux);
    }
  }
  PlanConfig config;
  config.dims = {4097, 8, 2, 128};
  EXPECT_EQ(error_of([&] { make_planner(config); }), "num_experts: 4097 is outside [1, 4096]");
}

TEST(PlannerConfig, IC_58_more_than_1023_replicas_in_total) {
  PlanConfig config;
  config.dims = {256, 128, 16, 1};
  std::vector<int64_t> totals(256, 1);
  for (int32_t e = 0; e < 16; ++e) totals[e] = 100'000;  // all of eight ranks
  const LoadTable loads = loads_of(128, totals);
  config.planner = PlannerKind::kPaper;
  EXPECT_TRUE(check_plan(plan_once(config, loads).plan, loads, config).empty());
  // A replica of every expert everywhere, as data: 2048 slots, all filled.
  std::vector<DraftReplica> replicas;
  std::vector<int32_t> owners, blocks(256, 256);
  for (int32_t e = 0; e < 256; ++e) owners.push_back(e / 2);
  for (int32_t r = 0; r < 128; ++r) {
    for (int32_t i = 0; i < 16; ++i) replicas.push_back({(2 * r + 2 + i) % 256, r, 1});
  }
  Plan plan;
  plan.assign({.dims = config.dims, .owner_of = owners, .blocks = blocks, .replicas = replicas});
  EXPECT_EQ(plan.num_replicas(), 2048);
  EXPECT_TRUE(check_plan(plan, loads_of(128, std::vector<int64_t>(256, 256)), config).empty());
}

}  // namespace
}  // namespace megaflux
