#include "megaflux/comm/wait.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "megaflux/base/check.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/threads_group.h"

namespace megaflux {
namespace {

using namespace std::chrono_literals;

ThreadsConfig brief_config(int32_t num_ranks) {
  ThreadsConfig config{.num_ranks = num_ranks};
  config.waits.deadline = 150ms;
  return config;
}

TEST(Signal, ComparesAcrossTheWrap) {
  EXPECT_TRUE(is_reached(5, 5));
  EXPECT_TRUE(is_reached(6, 5));
  EXPECT_FALSE(is_reached(4, 5));
  EXPECT_TRUE(is_reached(2, 0xfffffffeu));
  EXPECT_FALSE(is_reached(0xfffffffeu, 2));
}

RC_GTEST_PROP(Signal, OrderIsThatOfSmallSteps, (uint32_t at)) {
  const uint32_t step = *rc::gen::inRange<uint32_t>(1, 1u << 31);
  RC_ASSERT(is_reached(at + step, at));
  RC_ASSERT(!is_reached(at, at + step));
}

TEST(Wait, PublishesWhatWasWrittenBefore) {
  Layout layout;
  const auto data = layout.add<uint64_t>("data", 64);
  const auto flags = layout.add_epochs("flags", 1);
  ThreadsGroup group({.num_ranks = 2}, layout);
  for (uint32_t round = 1; round <= 500; ++round) {
    bool is_complete = true;
    group.run([&](RankContext& ctx) {
      uint32_t* const flag = ctx.heap.at(0, flags);
      if (ctx.rank == 1) {
        for (uint64_t& value : ctx.heap.span_of(0, data)) value = round * 77;
        post_signal(ctx, flag, round);
        return;
      }
      wait_for(ctx, {.tag = WaitTag::kXFull, .word = flag, .expected = round, .peer = 1});
      for (const uint64_t value : ctx.heap.span_of(0, data)) is_complete &= value == round * 77;
    });
    ASSERT_TRUE(is_complete) << round;
  }
}

TEST(Wait, AddedSignalsShowEveryWritersWork) {
  Layout layout;
  const auto data = layout.add<uint32_t>("data", 8);
  const auto counts = layout.add_counters("counts", 1);
  ThreadsGroup group({.num_ranks = 8}, layout);
  uint32_t sum = 0;
  group.run([&](RankContext& ctx) {
    ctx.heap.at(0, data)[ctx.rank] = 1u << ctx.rank;
    add_signal(ctx, ctx.heap.at(0, counts, 0), 1);
    if (ctx.rank != 0) return;
    wait_for(ctx, {.tag = WaitTag::kYCount, .word = ctx.heap.at(0, counts, 0), .expected = 8});
    for (const uint32_t value : ctx.heap.span_of(0, data)) sum += value;
  });
  EXPECT_EQ(sum, 255u);
}

TEST(Wait, TimeOutNamesEverything) {
  Layout layout;
  const auto flags = layout.add_epochs("flags", 4);
  ThreadsGroup group(brief_config(3), layout);
  try {
    group.run([&](RankContext& ctx) {
      if (ctx.rank != 2) return;
      post_signal(ctx, ctx.heap.at(2, flags) + 3, 41);
      wait_for(ctx, {.tag = WaitTag::kW2Ready,
                     .word = ctx.heap.at(2, flags) + 3,
                     .expected = 42,
                     .peer = 1,
                     .index = 3});
    });
    FAIL() << "a wait for a signal that nobody posts must end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_STREQ(error.what(),
                 "rank 2 (compute) timed out in epoch 0: waiting for w2_ready[3] of rank 1, "
                 "expected 42, saw 41");
  }
  EXPECT_TRUE(group.is_poisoned());
}

TEST(Wait, DeadlineIsScaled) {
  ThreadsConfig config = brief_config(1);
  config.waits.deadline = 20ms;
  config.waits.deadline_scale = 10;
  Layout layout;
  const auto flags = layout.add_epochs("flags", 1);
  ThreadsGroup group(config, layout);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(group.run([&](RankContext& ctx) {
    wait_for(ctx, {.word = ctx.heap.at(0, flags), .expected = 1});
  }),
               Error);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 200ms);
}

TEST(Wait, OthersEndWithTheFirstFailure) {
  Layout layout;
  const auto flags = layout.add_epochs("flags", 1);
  ThreadsConfig config = brief_config(4);
  config.waits.deadline = 60s;
  ThreadsGroup group(config, layout);
  std::string words[4];
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(group.run([&](RankContext& ctx) {
    if (ctx.rank == 1) ctx.waits.deadline = 50ms;
    try {
      wait_for(ctx, {.tag = WaitTag::kYCount, .word = ctx.heap.at(ctx.rank, flags), .expected = 1});
    } catch (const Error& error) {
      words[ctx.rank] = error.what();
      throw;
    }
  }),
               Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s) << "nobody waits for its own deadline";
  EXPECT_EQ(words[1].find("rank 1 (compute) timed out in epoch 0: waiting for y_count"), 0u);
  for (const int rank : {0, 2, 3}) {
    EXPECT_NE(words[rank].find("because rank 1 (compute) timed out"), std::string::npos)
        << words[rank];
    EXPECT_EQ(words[rank].find("rank " + std::to_string(rank) + " stopped"), 0u) << words[rank];
  }
}

TEST(Wait, EveryTagHasAName) {
  for (uint32_t tag = 0; tag <= static_cast<uint32_t>(WaitTag::kRingSlotFree); ++tag) {
    EXPECT_NE(wait_tag_name(static_cast<WaitTag>(tag)), "unknown");
  }
}

}  // namespace
}  // namespace megaflux
