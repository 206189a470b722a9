#include "megaflux/comm/threads_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/wait.h"

namespace megaflux {
namespace {

TEST(ThreadsGroup, RunsEveryRoleOnItsOwnThread) {
  ThreadsGroup group({.num_ranks = 5, .num_roles = 2}, Layout());
  std::thread::id ids[5][2];
  for (int round = 0; round < 3; ++round) {
    std::atomic<int32_t> calls{0};
    bool is_same = true;
    group.run([&](RankContext& ctx) {
      auto& id = ids[ctx.rank][static_cast<int>(ctx.role)];
      if (round > 0 && id != std::this_thread::get_id()) is_same = false;
      id = std::this_thread::get_id();
      ++calls;
    });
    EXPECT_EQ(calls, 10);
    EXPECT_TRUE(is_same) << "threads are persistent";
  }
  std::set<std::thread::id> distinct;
  for (auto& rank : ids) distinct.insert(rank, rank + 2);
  EXPECT_EQ(distinct.size(), 10u);
}

TEST(ThreadsGroup, RunsOneRoleAlone) {
  ThreadsGroup group({.num_ranks = 3, .num_roles = 2}, Layout());
  for (int round = 0; round < 200; ++round) {
    std::atomic<int32_t> compute{0}, comm{0};
    const auto count = [&](RankContext& ctx) { ++(ctx.role == Role::kComm ? comm : compute); };
    group.run(Role::kCompute, count);
    ASSERT_EQ(compute, 3);
    ASSERT_EQ(comm, 0);
    group.run(Role::kComm, count);
    ASSERT_EQ(comm, 3);
    group.run(count);
    ASSERT_EQ(compute, 6);
    ASSERT_EQ(comm, 6);
  }
}

TEST(ThreadsGroup, CommRoleCatchesUpWithLaunchesItMissed) {
  ThreadsGroup group({.num_ranks = 3, .num_roles = 2}, Layout());
  for (int step = 0; step < 50; ++step) {
    group.run(Role::kCompute, [&](RankContext& ctx) { enter(ctx, {.op = LaunchOp::kHead}); });
    group.run([&](RankContext& ctx) {
      if (ctx.role == Role::kComm) {
        join_entry(ctx);
        finish_comm(ctx);
      } else {
        enter(ctx, {.op = LaunchOp::kForward});
        leave(ctx);
      }
      MF_INVARIANT(ctx.epoch == 2 * static_cast<uint32_t>(step) + 2, ctx.epoch);
    });
  }
}

TEST(ThreadsGroup, RethrowsTheTypeAndTextOfTheFirstFailure) {
  ThreadsGroup group({.num_ranks = 4}, Layout());
  try {
    group.run([](RankContext& ctx) {
      if (ctx.rank == 2) throw std::out_of_range("rank two fell over");
      enter(ctx, {});
    });
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "rank two fell over");
  }
  EXPECT_TRUE(group.is_poisoned());
  EXPECT_EQ(group.failure_text(), "rank 2 (compute) failed in epoch 0: rank two fell over");
}

TEST(ThreadsGroup, PoisonedUntilRecovered) {
  ThreadsGroup group({.num_ranks = 2}, Layout());
  EXPECT_THROW(group.run([](RankContext& ctx) {
    if (ctx.rank == 0) throw 42;
  }),
               int);
  bool was_called = false;
  try {
    group.run([&](RankContext&) { was_called = true; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_STREQ(error.what(),
                 "the group is poisoned until recover(), because rank 0 (compute) failed in epoch "
                 "0: an exception of unknown type");
  }
  EXPECT_FALSE(was_called);
  group.recover();
  EXPECT_FALSE(group.is_poisoned());
  EXPECT_EQ(group.failure_text(), "");
  group.run([&](RankContext& ctx) {
    MF_INVARIANT(ctx.epoch == 1u << 16, ctx.epoch);
    if (ctx.rank == 0) was_called = true;
  });
  EXPECT_TRUE(was_called);
}

TEST(ThreadsGroup, UnequalNumbersOfLaunchesAreCaughtAtTheEndOfTheRun) {
  ThreadsGroup group({.num_ranks = 3}, Layout());
  try {
    group.run([](RankContext& ctx) {
      enter(ctx, {});
      if (ctx.rank == 1) post_entry(ctx, {});
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDisagree);
    EXPECT_STREQ(error.what(),
                 "ranks disagree: rank 1 ended the run at epoch 2, rank 0 at epoch 1");
  }
  EXPECT_TRUE(group.is_poisoned());
  group.recover();
  group.run([](RankContext& ctx) { enter(ctx, {}); });
}

// The words of an exit that no launch had for more than 2^31 launches must not end the next exit.
TEST(ThreadsGroup, WordsThatWereLeftOverDoNotSeemAhead) {
  for (const uint32_t start : {0u, 0xfffffffeu}) {
    ThreadsGroup group({.num_ranks = 2, .start_epoch = start}, Layout());
    std::atomic<bool> has_pulled{false};
    const auto launch = [&](RankContext& ctx) {
      enter(ctx, {.op = LaunchOp::kForward});
      if (ctx.rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        has_pulled = true;
      }
      leave(ctx);
      EXPECT_TRUE(has_pulled) << "rank " << ctx.rank << " left before rank 1 had pulled";
    };
    group.run(launch);
    // As if each run made so many heads, which write the words of the entry and no others.
    for (int run = 0; run < 5; ++run) {
      group.run([&](RankContext& ctx) {
        ctx.epoch += 1u << 29;
        uint32_t* const epochs = ctx.heap.at(ctx.rank, ctx.protocol.entry_epochs);
        std::fill_n(epochs, ctx.protocol.entry_epochs.count, ctx.epoch);
      });
    }
    has_pulled = false;
    group.run(launch);
  }
}

TEST(ThreadsGroup, RefusesBadConfigs) {
  EXPECT_THROW(ThreadsGroup({.num_ranks = 0}, Layout()), Error);
  EXPECT_THROW(ThreadsGroup({.num_ranks = 1025}, Layout()), Error);
  EXPECT_THROW(ThreadsGroup({.num_ranks = 1, .num_roles = 3}, Layout()), Error);
  EXPECT_THROW(ThreadsGroup({.num_ranks = 1, .payload_words = -1}, Layout()), Error);
  EXPECT_THROW(ThreadsGroup({.waits = {.deadline = std::chrono::milliseconds(0)}}, Layout()),
               Error);
  EXPECT_THROW(ThreadsGroup({.waits = {.deadline_scale = 0}}, Layout()), Error);
}

TEST(ThreadsGroup, RefusesASecondCallWhileRunning) {
  ThreadsGroup group({.num_ranks = 2}, Layout());
  group.run([&](RankContext& ctx) {
    if (ctx.rank == 0) {
      EXPECT_THROW(group.run([](RankContext&) {}), Error);
    }
    if (ctx.rank == 1) {
      EXPECT_THROW(group.recover(), Error);
    }
  });
}

void exchange(ThreadsGroup& group, int num_launches) {
  group.run([&](RankContext& ctx) {
    for (int i = 0; i < num_launches; ++i) {
      enter(ctx, {.op = LaunchOp::kForward, .layer = i});
      leave(ctx);
    }
  });
}

TEST(ThreadsGroup, TwoGroupsWorkAtTheSameTime) {
  ThreadsGroup first({.num_ranks = 4}, Layout());
  ThreadsGroup second({.num_ranks = 3, .start_epoch = 77}, Layout());
  {
    std::jthread one([&] { exchange(first, 100); });
    std::jthread two([&] { exchange(second, 100); });
  }
  exchange(first, 1);
  exchange(second, 1);
}

TEST(ThreadsGroup, APoisonedGroupLeavesOthersAlone) {
  ThreadsGroup sound({.num_ranks = 2}, Layout());
  ThreadsGroup broken({.num_ranks = 2}, Layout());
  EXPECT_ANY_THROW(broken.run([](RankContext&) { throw std::runtime_error("x"); }));
  exchange(sound, 10);
  EXPECT_FALSE(sound.is_poisoned());
}

TEST(ThreadsGroup, EndsInAnyOrder) {
  for (const bool is_first_first : {false, true}) {
    auto first = std::make_unique<ThreadsGroup>(ThreadsConfig{.num_ranks = 3}, Layout());
    auto second = std::make_unique<ThreadsGroup>(ThreadsConfig{.num_ranks = 3}, Layout());
    auto unused = std::make_unique<ThreadsGroup>(ThreadsConfig{.num_ranks = 9}, Layout());
    exchange(*first, 3);
    exchange(*second, 3);
    (is_first_first ? first : second).reset();
    exchange(is_first_first ? *second : *first, 3);
    unused.reset();
  }
}

TEST(ThreadsGroup, EndsWhilePoisoned) {
  ThreadsGroup group({.num_ranks = 3}, Layout());
  EXPECT_ANY_THROW(group.run([](RankContext&) { throw std::runtime_error("x"); }));
}

TEST(ThreadsGroup, SixtyFourRanksOnFewCores) {
  ThreadsGroup group({.num_ranks = 64, .num_roles = 2}, Layout());
  group.run([&](RankContext& ctx) {
    for (int i = 0; i < 3; ++i) {
      if (ctx.role == Role::kComm) {
        join_entry(ctx);
        finish_comm(ctx);
      } else {
        enter(ctx, {.layer = i});
        leave(ctx);
      }
    }
  });
}

}  // namespace
}  // namespace megaflux
