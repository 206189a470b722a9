#include "megaflux/layer/mega/mega_support.h"

#include <gtest/gtest.h>

#include "megaflux/base/check.h"
#include "megaflux/layer/mega/mega_fields.h"

namespace megaflux {
namespace {

// The example of the header.
MegaConfig example() {
  return {.shape = {.num_experts = 128, .topk = 8, .hidden = 4096, .inter = 1536},
          .num_ranks = 8,
          .replica_slots = 2,
          .max_tokens = 8192};
}

TEST(MegaSupport, BytesByPart) {
  const MegaConfig config = example();
  const MegaSupport support = supports(config, 132);
  ASSERT_TRUE(support.is_supported());
  const MegaMemory& memory = support.memory;
  EXPECT_EQ(memory.weights, int64_t{16} * 3 * 4096 * 1536 * 2);
  EXPECT_EQ(memory.replica_slots, int64_t{2} * 3 * 4096 * 1536 * 2);
  EXPECT_EQ(memory.rows, int64_t{84'224} * 4096 * 2);
  EXPECT_EQ(memory.activations, int64_t{84'224} * 1536 * 2);
  EXPECT_EQ(memory.tokens, int64_t{8192} * 4096 * 2);
  EXPECT_EQ(memory.results, int64_t{8192} * 8 * 4096 * 2);
  EXPECT_GT(memory.signals, 0);
  EXPECT_GT(memory.tables, 0);
  EXPECT_EQ(memory.total(), memory.heap() + memory.workspace() + memory.weights);
}

TEST(MegaSupport, HeapAndWorkspaceAreThoseOfTheFields) {
  const MegaConfig resolved = resolve_config(example(), 132);
  const MegaMemory memory = mega_memory(resolved);
  Layout heap, space;
  add_mega_fields(heap, resolved);
  add_workspace_fields(space, resolved);
  EXPECT_EQ(memory.heap(), static_cast<int64_t>(heap.total_bytes()));
  EXPECT_EQ(memory.workspace(), static_cast<int64_t>(space.total_bytes()));
}

TEST(MegaSupport, BiasesAreWeights) {
  MegaConfig config = example();
  const int64_t without = supports(config, 132).memory.weights;
  config.shape.has_bias = true;
  EXPECT_EQ(supports(config, 132).memory.weights - without, 16 * 4 * (2 * 1536 + 4096));
}

TEST(MegaSupport, ARankAloneSharesNoTokens) {
  MegaConfig config = example();
  config.num_ranks = 1;
  EXPECT_EQ(supports(config, 132).memory.tokens, 0);
}

// Legal shapes are legal on a device: ids may repeat in a token's row, so K may exceed E.
TEST(MegaSupport, TopkIsBoundedAsInEveryShape) {
  MegaConfig config = example();
  for (const int32_t num_experts : {1, 3, 64}) {
    for (const int32_t topk : {-1, 0, 1, 4, 64, 65}) {
      config.shape.num_experts = num_experts;
      config.shape.topk = topk;
      std::string refusal;
      try {
        check_shape(config.shape);
      } catch (const Error& error) {
        refusal = error.what();
      }
      const MegaSupport support = supports(config, 132);
      EXPECT_EQ(support.is_supported(), refusal.empty()) << "E " << num_experts << ", K " << topk;
      EXPECT_EQ(support.is_supported(), topk >= 1 && topk <= 64);
      const bool is_told =
          !refusal.empty() && support.missing[0].find(refusal) != std::string::npos;
      EXPECT_EQ(is_told, !refusal.empty());
    }
  }
}

TEST(MegaSupport, ARefusedShapeNamesItsLimitAndHasNoBytes) {
  const auto missing_of = [](const MegaConfig& config, int32_t rank_sms) {
    const MegaSupport support = supports(config, rank_sms);
    EXPECT_EQ(support.memory.total(), 0);
    EXPECT_EQ(support.needed.size(), 1u);
    EXPECT_TRUE(support.supported.empty());
    return support.missing.size() == 1 ? support.missing[0] : "";
  };
  const std::string opening = "a layer within the limits of a device: ";
  MegaConfig config = example();
  config.shape.hidden = 4100;
  EXPECT_EQ(missing_of(config, 132), opening + "hidden: 4100 is no multiple of 64");
  config = example();
  config.shape.dtype = DType::kFp32;
  EXPECT_EQ(missing_of(config, 132), opening + "dtype: fp32, needed is bf16");
  config = example();
  config.replica_slots = 9;
  EXPECT_EQ(missing_of(config, 132), opening + "replica_slots: 9 is outside [0, 8]");
  EXPECT_EQ(missing_of(example(), 0),
            opening + "rank_sms: 0, the device hosts more ranks than it has SMs");
}

TEST(MegaSupport, TooLittleMemoryNamesEveryPart) {
  const int64_t total = supports(example(), 132).memory.total();
  EXPECT_TRUE(supports(example(), 132, total).is_supported());
  const MegaSupport tight = supports(example(), 132, total - 1);
  EXPECT_EQ(tight.supported.size(), 1u) << "the shape";
  ASSERT_EQ(tight.missing.size(), 1u);
  EXPECT_EQ(tight.memory.total(), total);
  for (const char* word :
       {"tokens 67108864,", "results 536870912,", "signals", "row pool", "activations", "tables",
        "weights 603979776,", "replica slots 75497472", "the limit is"}) {
    EXPECT_NE(tight.missing[0].find(word), std::string::npos) << word << ": " << tight.missing[0];
  }
}

}  // namespace
}  // namespace megaflux
