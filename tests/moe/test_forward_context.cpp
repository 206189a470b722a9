// ForwardContext: one backward each, recycled memory, and errors for every misuse.
#include "megaflux/moe/forward_context.h"

#include <gtest/gtest.h>

#include <utility>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

TEST(ForwardContext, IsConsumedOnce) {
  ForwardContext context = ForwardContext::owning();
  context.state().layer = 7;
  EXPECT_EQ(context.consume().layer, 7);
  EXPECT_TRUE(context.is_consumed());
  EXPECT_THROW(context.consume(), Error);
  EXPECT_THROW((void)context.state(), Error);
}

TEST(ForwardContext, EmptyAndMovedFromAreErrors) {
  ForwardContext context;
  EXPECT_TRUE(context.empty());
  EXPECT_THROW((void)context.state(), Error);
  ForwardContext owner = ForwardContext::owning();
  const ForwardContext moved = std::move(owner);
  EXPECT_TRUE(owner.empty());  // NOLINT: what a moved-from handle says is the contract
  EXPECT_FALSE(moved.empty());
}

TEST(ForwardArena, NamesItselfWhenItRunsOut) {
  ForwardArena arena("microbatches", 2);
  ForwardContext a = arena.acquire();
  const ForwardContext b = arena.acquire();
  try {
    (void)arena.acquire();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("microbatches"), std::string::npos);
  }
  a.release();
  EXPECT_EQ(arena.num_in_use(), 1);
  EXPECT_NO_THROW((void)arena.acquire());
}

TEST(ForwardArena, AFreedPlanIsAnError) {
  ForwardArena arena("step", 1);
  ForwardContext context = arena.acquire();
  arena.release_all();
  EXPECT_THROW((void)context.state(), Error);
  // The memory serves another context now, which the old handle cannot reach or release.
  ForwardContext next = arena.acquire();
  context.release();
  EXPECT_NO_THROW((void)next.state());
}

TEST(ForwardArena, ContextsOutliveTheArenaObject) {
  ForwardContext context;
  {
    ForwardArena arena("short", 1);
    context = arena.acquire();
  }
  EXPECT_NO_THROW((void)context.state());
}

TEST(ForwardArena, KnowsItsContexts) {
  ForwardArena arena("one", 1);
  ForwardArena other("other", 1);
  const ForwardContext context = arena.acquire();
  EXPECT_TRUE(arena.owns(context));
  EXPECT_FALSE(other.owns(context));
  EXPECT_FALSE(arena.owns(ForwardContext()));
}

TEST(SavedRank, KeepsIdsOfValidTokensOnly) {
  const std::vector<int16_t> ids = {3, -1, 999, 999};
  const std::vector<float> weights = {0.5f, 0.25f, 9.0f, 9.0f};
  const int32_t valid = 1;
  SavedRank saved;
  saved.save_routing({.num_tokens = 2,
                      .topk = 2,
                      .id_type = IdType::kInt16,
                      .topk_ids = ids.data(),
                      .topk_weights = weights.data(),
                      .num_valid_tokens = &valid});
  EXPECT_EQ(saved.topk_ids, (std::vector<int32_t>{3, -1, -1, -1}));
  EXPECT_EQ(saved.topk_weights[0], 0.5f);
  EXPECT_EQ(saved.routing().num_tokens, 2);
}

}  // namespace
}  // namespace megaflux
