#include "megaflux/layer/mega/mega_config.h"

#include <gtest/gtest.h>

#include <set>

#include "megaflux/base/check.h"
#include "megaflux/layer/mega/mega_fields.h"

namespace megaflux {
namespace {

MegaConfig config_of(int32_t hidden, int32_t inter) {
  return {.shape = {.num_experts = 16, .topk = 8, .hidden = hidden, .inter = inter},
          .max_tokens = 8192};
}

std::string refusal_of(const MegaConfig& config) {
  try {
    resolve_config(config, 132);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MegaConfig, TheExampleOfTheHeader) {
  MegaConfig wanted = config_of(4096, 1536);
  wanted.shape.num_experts = 128;
  wanted.num_ranks = 8;
  wanted.replica_slots = 2;
  const MegaConfig config = resolve_config(wanted, 132);
  EXPECT_EQ(config.most_weights(), 18);
  EXPECT_EQ(config.pool_rows, 84'224);
  EXPECT_EQ(config.pool_tiles(), 658);
  EXPECT_EQ(config.max_tiles(), 4096 + 18);
  EXPECT_EQ(config.fc1_columns(), 12);
  EXPECT_EQ(config.fc2_columns(), 16);
  EXPECT_EQ(config.unit_tiles(), 16);
  EXPECT_EQ(config.num_sms, 132);
  Layout heap, space;
  const MegaFields shared = add_mega_fields(heap, config);
  EXPECT_EQ(shared.results.count * sizeof(Bf16), size_t{512} << 20);
  EXPECT_EQ(shared.tokens.count * sizeof(Bf16), size_t{64} << 20);
  const WorkspaceFields fields = add_workspace_fields(space, config);
  EXPECT_EQ(fields.x.count * sizeof(Bf16), size_t{658} << 20);
  EXPECT_EQ(fields.a.count * sizeof(Bf16), size_t{84'224} * 1536 * 2);
}

TEST(MegaConfig, OneRankSharesNoTokens) {
  Layout heap;
  EXPECT_EQ(add_mega_fields(heap, resolve_config(config_of(4096, 1536), 132)).tokens.count, 0u);
}

TEST(MegaConfig, TheHashCoversWhatRanksMustShare) {
  const MegaConfig config = resolve_config(config_of(64, 64), 132);
  std::set<uint64_t> hashes = {config_hash(config)};
  const auto expect_distinct = [&](auto&& change) {
    MegaConfig other = config;
    change(other);
    EXPECT_TRUE(hashes.insert(config_hash(other)).second) << hashes.size();
  };
  expect_distinct([](MegaConfig& c) { ++c.shape.num_experts; });
  expect_distinct([](MegaConfig& c) { ++c.shape.topk; });
  expect_distinct([](MegaConfig& c) { c.shape.hidden += 64; });
  expect_distinct([](MegaConfig& c) { c.shape.inter += 64; });
  expect_distinct([](MegaConfig& c) { c.shape.gate_order = GateOrder::kUpGate; });
  expect_distinct(
      [](MegaConfig& c) { c.shape.activation.kind = Activation::Kind::kClampedSwiGlu; });
  expect_distinct([](MegaConfig& c) { c.shape.activation.limit = 6; });
  expect_distinct([](MegaConfig& c) { c.shape.activation.alpha = 1; });
  expect_distinct([](MegaConfig& c) { c.shape.has_bias = true; });
  expect_distinct([](MegaConfig& c) { ++c.num_ranks; });
  expect_distinct([](MegaConfig& c) { ++c.most_owned; });
  expect_distinct([](MegaConfig& c) { ++c.replica_slots; });
  expect_distinct([](MegaConfig& c) { ++c.max_tokens; });
  MegaConfig same = config;
  same.num_sms = 3;
  same.lag_waves = 9;
  same.pool_rows = 128;
  EXPECT_EQ(config_hash(same), config_hash(config));
}

TEST(MegaConfig, SmallPoolsHaveSmallUnits) {
  MegaConfig config = config_of(64, 64);
  for (const auto& [rows, tiles] : {std::pair{128, 1}, {900, 1}, {1024, 2}, {4096, 8}}) {
    config.pool_rows = rows;
    EXPECT_EQ(resolve_config(config, 132).unit_tiles(), tiles) << rows;
  }
}

TEST(MegaConfig, RefusalsNameFieldValueAndLimit) {
  EXPECT_EQ(refusal_of(config_of(4096, 1536)), "");
  EXPECT_EQ(refusal_of(config_of(4100, 1536)), "hidden: 4100 is no multiple of 64");
  EXPECT_EQ(refusal_of(config_of(4096, 1500)), "inter: 1500 is no multiple of 64");
  MegaConfig config = config_of(64, 64);
  config.shape.dtype = DType::kFp32;
  EXPECT_EQ(refusal_of(config), "dtype: fp32, needed is bf16");
  config = config_of(64, 64);
  config.shape.num_experts = 1025;
  EXPECT_EQ(refusal_of(config), "num_experts: 1025 is outside [1, 1024]");
  config = config_of(64, 64);
  config.num_ranks = 129;
  EXPECT_EQ(refusal_of(config), "num_ranks: 129 is outside [1, 128]");
  config = config_of(64, 64);
  config.num_ranks = 3;
  config.most_owned = 5;
  EXPECT_EQ(refusal_of(config), "most_owned: 5 is outside [6, 16]");
  config = config_of(64, 64);
  config.replica_slots = 9;
  EXPECT_EQ(refusal_of(config), "replica_slots: 9 is outside [0, 8]");
  config = config_of(64, 64);
  config.max_tokens = -1;
  EXPECT_EQ(refusal_of(config), "max_tokens: -1 x topk 8 is outside [0, 2^30)");
  config = config_of(64, 64);
  config.pool_rows = 127;
  EXPECT_EQ(refusal_of(config), "pool_rows: 127 is outside [128, 2^31)");
  config = config_of(64, 64);
  config.num_sms = 133;
  EXPECT_EQ(refusal_of(config), "num_sms: 133 is outside [1, 132], the SMs that a rank can have");
  config = config_of(64, 64);
  config.lag_waves = 0;
  EXPECT_EQ(refusal_of(config), "lag_waves: 0 is outside [1, 64]");
  config = config_of(64, 64);
  config.num_ranks = 128;
  config.max_tokens = 1 << 22;
  EXPECT_EQ(refusal_of(config), "max_tokens: 4194304 x topk 8 on 128 ranks is at or above 2^31");
  config = config_of(65536, 65536);
  config.max_tokens = 1 << 26;
  EXPECT_NE(refusal_of(config).find("which must be below 2^31"), std::string::npos);
}

}  // namespace
}  // namespace megaflux
