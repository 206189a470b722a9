#include "megaflux/layer/mega/mega_config.h"

#include <gtest/gtest.h>

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
  const MegaConfig config = resolve_config(config_of(4096, 1536), 132);
  EXPECT_EQ(config.pool_rows, 83'968);
  EXPECT_EQ(config.pool_tiles(), 656);
  EXPECT_EQ(config.max_tiles(), 528);
  EXPECT_EQ(config.fc1_columns(), 12);
  EXPECT_EQ(config.fc2_columns(), 16);
  EXPECT_EQ(config.unit_tiles(), 8);
  EXPECT_EQ(config.num_sms, 132);
  Layout heap, space;
  EXPECT_EQ(add_mega_fields(heap, config).results.count, size_t{65'536} * 4096);
  const WorkspaceFields fields = add_workspace_fields(space, config);
  EXPECT_EQ(fields.x.count * sizeof(Bf16), size_t{656} << 20);
  EXPECT_EQ(fields.a.count * sizeof(Bf16), size_t{246} << 20);
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
  config.num_ranks = 2;
  EXPECT_NE(refusal_of(config).find("num_ranks: 2"), std::string::npos);
  config = config_of(64, 64);
  config.max_tokens = -1;
  EXPECT_EQ(refusal_of(config), "max_tokens: -1 x topk 8 is outside [0, 2^30)");
  config = config_of(64, 64);
  config.pool_rows = 127;
  EXPECT_EQ(refusal_of(config), "pool_rows: 127 is outside [128, 2^31)");
  config = config_of(64, 64);
  config.num_sms = 133;
  EXPECT_EQ(refusal_of(config), "num_sms: 133 is outside [1, 132], the SMs of the device");
  config = config_of(64, 64);
  config.lag_waves = 0;
  EXPECT_EQ(refusal_of(config), "lag_waves: 0 is outside [1, 64]");
  config = config_of(65536, 65536);
  config.max_tokens = 1 << 26;
  EXPECT_NE(refusal_of(config).find("which must be below 2^31"), std::string::npos);
}

}  // namespace
}  // namespace megaflux
