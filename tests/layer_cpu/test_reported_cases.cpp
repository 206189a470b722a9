// Inputs from bug reports of other systems, by their id in the project's list of cases.
#include <gtest/gtest.h>

#include "megaflux/base/bf16.h"
#include "megaflux/base/check.h"
#include "parity/compare.h"

namespace megaflux {
namespace {

LayerCase case_with(const char* name, std::vector<int32_t> tokens) {
  LayerCase c;
  c.name = name;
  c.shape = {.num_experts = 8, .topk = 2, .hidden = 16, .inter = 8};
  c.tokens = std::move(tokens);
  c.replica_slots = 1;
  return c;
}

// One step under a random plan, held against the reference.
StepOutput expect_right(const StepData& data, const RigOptions& options = {}) {
  const Plan plan = random_plan(data, data.layer_case.block_rows, 9);
  CpuRig rig(data, options);
  StepOutput out = rig.step(plan);
  const Errors errors = errors_of(data, out, reference_output(data.problem(), plan));
  EXPECT_LE(errors.y, output_tolerance(data.shape())) << data.layer_case.name;
  EXPECT_LE(errors.worst_gradient(), gradient_tolerance(data.shape())) << data.layer_case.name;
  return out;
}

int64_t rows_computed(const StepOutput& out) {
  int64_t rows = 0;
  for (const RankReport& rank : out.forward) rows += rank.rows;
  return rows;
}

// IC_09, IC_10: every address is 64-bit. The pool is reserved, never touched.
TEST(ReportedCases, IC_09_PoolAddressesGoBeyond2To31Elements) {
  CpuLayerConfig config = {.shape = {.num_experts = 1, .topk = 1, .hidden = 65536, .inter = 1},
                           .num_ranks = 1,
                           .max_tokens = 1,
                           .pool_rows = 512 * kTileRows,
                           .owner_of = {},
                           .gemm = GemmBackend::kPlainLoops};
  config = resolve_config(config);
  const RowPool pool(config);
  const int64_t tile_bytes = int64_t{kTileRows} * 65536 * 2;
  for (const int32_t tile : {1, 255, 256, 257, 511}) {
    EXPECT_EQ(pool.x(tile) - pool.x(0), tile * tile_bytes);
    EXPECT_EQ(pool.dy(tile) - pool.dy(0), tile * tile_bytes);
    EXPECT_EQ(pool.x(512 + tile), pool.x(tile)) << "a ring";
  }
  EXPECT_GT(511 * tile_bytes / 2, int64_t{1} << 31);
}

// IC_12: only rank 0 has valid rows, the others are padded to full length.
TEST(ReportedCases, IC_12_PadsCostNothingAndGiveZeros) {
  LayerCase c = case_with("IC_12", {104, 40, 40, 40});
  c.invalid_tokens = 40;
  const StepData data(c, 91);
  const StepOutput out = expect_right(data);
  EXPECT_EQ(rows_computed(out), 64 * 2);
  for (int32_t rank = 1; rank < 4; ++rank) {
    for (int64_t i = 0; i < out.y[rank].size(); ++i) ASSERT_EQ(out.y[rank].at(i), 0.0);
    for (const float dp : out.dp[rank]) ASSERT_EQ(dp, 0.0f);
  }
}

// IC_14 (b): sixteen ranks, one row in all.
TEST(ReportedCases, IC_14_SixteenRanksOneRow) {
  std::vector<int32_t> tokens(16, 0);
  tokens[0] = 1;
  LayerCase c = case_with("IC_14", tokens);
  c.shape.num_experts = 32;
  c.shape.topk = 1;
  const StepOutput out = expect_right(StepData(c, 92));
  EXPECT_EQ(rows_computed(out), 1);
}

// IC_18, IC_49, IC_64: any counts, unequal numbers of rounds on the ranks, pools of two tiles.
TEST(ReportedCases, IC_18_IC_49_IC_64_AnyRowCounts) {
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{4095, 4095}, {5, 5}, {6, 6}, {1, 4096, 0, 17, 8191, 3, 2, 9}}) {
    LayerCase c = case_with("IC_18", tokens);
    c.shape.hidden = 8;
    c.shape.inter = 4;
    c.route = RouteKind::kSkewed;
    const StepData data(c, 93);
    CpuRig rig(data, {.pool_tiles = 2});
    const StepOutput small = rig.step(spread_plan(data, 128));
    const StepOutput large = CpuRig(data).step(fixed_plan(data, 128));
    EXPECT_EQ(token_difference(small, large), "");
    EXPECT_EQ(rows_computed(small), data.loads().total_rows());
  }
}

// IC_29: a row beside 0 ... 127 companions, at its owner and on a replica.
TEST(ReportedCases, IC_29_CompanionsDoNotChangeARow) {
  std::vector<std::byte> first;
  for (const int32_t tokens : {1, 16, 32, 64, 128, 1024}) {
    LayerCase c = case_with("IC_29", {tokens, 3});
    c.shape.num_experts = 2;
    c.shape.topk = 1;
    c.route = RouteKind::kOneHot;
    StepData data(c, 94);
    data.redraw_weights(7);
    for (int64_t h = 0; h < 16; ++h) data.x[0].set(h, 0.1f * static_cast<float>(h) - 0.7f);
    data.topk_weights[0][0] = 0.6f;
    CpuRig rig(data);
    for (const bool is_replica : {false, true}) {
      const Plan plan = is_replica ? spread_plan(data, 1) : fixed_plan(data, 128);
      StepOutput out = rig.step(plan);
      out.y[0].bytes.resize(16 * sizeof(Bf16));
      if (first.empty()) first = out.y[0].bytes;
      EXPECT_EQ(out.y[0].bytes, first) << tokens << " tokens, replica " << is_replica;
    }
  }
}

// IC_61: int16, int32 and int64 ids with the same content.
TEST(ReportedCases, IC_61_IdTypesAgree) {
  LayerCase c = case_with("IC_61", {30, 20});
  std::vector<StepOutput> outputs;
  for (const IdType type : {IdType::kInt16, IdType::kInt32, IdType::kInt64}) {
    c.id_type = type;
    outputs.push_back(expect_right(StepData(c, 95)));
  }
  EXPECT_EQ(token_difference(outputs[0], outputs[1]), "");
  EXPECT_EQ(token_difference(outputs[0], outputs[2]), "");
}

// IC_63: experts with 0, 1, 7 and 8 rows.
TEST(ReportedCases, IC_63_GroupSizes) {
  for (const int32_t tokens : {0, 1, 7, 8}) {
    LayerCase c = case_with("IC_63", {tokens, 0});
    c.route = RouteKind::kOneHot;
    c.block_rows = 8;
    const StepOutput out = expect_right(StepData(c, 96));
    EXPECT_EQ(rows_computed(out), 2 * tokens);
  }
}

// IC_68: gpt-oss' hidden size, three experts a rank; nothing is a multiple of 128.
TEST(ReportedCases, IC_68_HiddenSize2880) {
  LayerCase c = case_with("IC_68", {40, 25});
  c.shape.num_experts = 6;
  c.shape.hidden = 2880;
  c.shape.inter = 24;
  const StepData data(c, 97);
  expect_right(data);
  CpuRig rig(data);
  EXPECT_EQ(token_difference(rig.step(fixed_plan(data, 128)), rig.step(random_plan(data, 1, 4))),
            "");
}

// IC_74: every row on one rank runs in rounds within the capacity fixed at creation.
TEST(ReportedCases, IC_74_WorstCaseStaysWithinThePool) {
  LayerCase c = case_with("IC_74", {400, 400, 400, 400});
  c.route = RouteKind::kAllToRank0;
  const StepData data(c, 98);
  CpuRig rig(data);
  EXPECT_EQ(rig.config().pool_rows, 1000 + 24 + 128 * 3) << "1.25 T K, padding, in whole tiles";
  const StepOutput out = rig.step(fixed_plan(data, 128));
  EXPECT_EQ(out.forward[0].rows, 3200);
  EXPECT_EQ(out.forward[0].rounds, 3);
  EXPECT_EQ(token_difference(out, rig.step(spread_plan(data, 17))), "");
}

TEST(ReportedCases, BadConfigurationsAreNamed) {
  const auto message_of = [](CpuLayerConfig config) -> std::string {
    try {
      resolve_config(std::move(config));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const CpuLayerConfig good = {.shape = {.num_experts = 4, .topk = 2, .hidden = 8, .inter = 8},
                               .num_ranks = 2,
                               .max_tokens = 4,
                               .owner_of = {}};
  EXPECT_EQ(message_of(good), "accepted");
  CpuLayerConfig bad = good;
  bad.num_ranks = 0;
  EXPECT_NE(message_of(bad).find("num_ranks: 0"), std::string::npos);
  bad = good;
  bad.pool_rows = 128;
  bad.fc2_lag_tiles = 1;
  EXPECT_NE(message_of(bad).find("fc2_lag_tiles 1"), std::string::npos);
  bad = good;
  bad.owner_of = {0, 1, 2, 0};
  EXPECT_NE(message_of(bad).find("owner_of[2]: 2"), std::string::npos);
  bad = good;
  bad.max_tokens = 1 << 30;
  EXPECT_NE(message_of(bad).find("max_tokens"), std::string::npos);
  bad = good;
  bad.shape.dtype = DType::kFp32;
  bad.gemm = GemmBackend::kOneDnnBf16;
  EXPECT_NE(message_of(bad).find("gemm"), std::string::npos);
}

TEST(ReportedCases, SupportNamesWhatIsMissing) {
  const CpuLayerConfig config = {.shape = {.num_experts = 4, .topk = 2, .hidden = 8, .inter = 8},
                                 .num_ranks = 2,
                                 .max_tokens = 4,
                                 .owner_of = {}};
  const SupportReport fine = supports(config);
  EXPECT_TRUE(fine.is_supported());
  EXPECT_GT(fine.memory.total(), 0);
  EXPECT_EQ(fine.memory.routes, (4 + 1 + 4 * 2) * 4) << "first pair of each expert, and T K pairs";
  EXPECT_EQ(fine.memory.accumulators, 0);
  CpuLayerConfig with_slots = config;
  with_slots.replica_slots = 1;
  EXPECT_EQ(layer_memory(resolve_config(with_slots), GradientMode::kAddToMain).accumulators,
            (1 + 2) * config.shape.expert_gradient_bytes())
      << "one for all experts without replicas, one for each of the two owned that may have some";
  const SupportReport tight = supports(config, 1000);
  ASSERT_EQ(tight.missing.size(), 1u);
  EXPECT_NE(tight.missing[0].find("1000 bytes"), std::string::npos);
}

}  // namespace
}  // namespace megaflux
