// Ranks that never arrive, die, or lose a signal: every such run ends with an error that names the
// fault, the group refuses work until recover(), and works again after it.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/toy_launch.h"
#include "megaflux/base/check.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/threads_group.h"
#include "megaflux/comm/wait.h"

namespace megaflux {
namespace {

using namespace std::chrono_literals;
using test::add_toy_fields;
using test::toy_launch;
using test::ToyFields;

class FaultTest : public ::testing::TestWithParam<int32_t> {
 protected:
  FaultTest() : fields_(add_toy_fields(layout_, kRanks)), group_(config(), layout_) {}

  static ThreadsConfig config() {
    ThreadsConfig config{.num_ranks = kRanks, .num_roles = GetParam(), .start_epoch = 0xfffffffdu};
    config.waits.deadline = 100ms;
    return config;
  }
  void run_sound(int num_launches) {
    group_.run([&](RankContext& ctx) {
      ctx.waits.deadline = 20s;
      for (int i = 0; i < num_launches; ++i) toy_launch(ctx, fields_);
      ctx.waits.deadline = 100ms;
    });
  }
  // The group must be poisoned by `text`, refuse to run, and work after recover().
  void expect_poisoned_then_recover(const std::string& text) {
    ASSERT_TRUE(group_.is_poisoned());
    EXPECT_NE(group_.failure_text().find(text), std::string::npos) << group_.failure_text();
    try {
      run_sound(1);
      FAIL() << "a poisoned group must refuse";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    group_.recover();
    run_sound(5);
  }

  static constexpr int32_t kRanks = 4;
  Layout layout_;
  ToyFields fields_;
  ThreadsGroup group_;
};

TEST_P(FaultTest, ARankNeverArrives) {
  for (int round = 0; round < 2; ++round) {
    run_sound(round);
    try {
      group_.run([&](RankContext& ctx) {
        ctx.waits.deadline = 1s;  // on a loaded machine the others take a while to arrive
        if (ctx.rank != 2) toy_launch(ctx, fields_);
      });
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    }
    // Which rank's clock runs out first is open; on whom it waits is not. A comm role waits for its
    // own compute role, which may be blamed instead.
    if (GetParam() == 1) {
      EXPECT_NE(group_.failure_text().find("entry of rank 2"), std::string::npos);
    }
    expect_poisoned_then_recover("timed out");
  }
}

// Although it has waited the shortest.
TEST_P(FaultTest, AnImpatientWaitIsTheOneNamed) {
  uint32_t never = 0;
  EXPECT_THROW(group_.run([&](RankContext& ctx) {
    ctx.waits.deadline = 2s;
    const bool is_impatient = ctx.rank == 1 && ctx.role == Role::kCompute;
    if (is_impatient) std::this_thread::sleep_for(200ms);
    wait_for(ctx, {.tag = is_impatient ? WaitTag::kXFull : WaitTag::kAFull,
                   .word = &never,
                   .expected = 1,
                   .index = 7,
                   .is_impatient = is_impatient});
  }),
               Error);
  expect_poisoned_then_recover(
      "rank 1 (compute) timed out in epoch 4294967293: waiting for x_full[7]");
}

TEST_P(FaultTest, ARankDiesBeforeItsEntry) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(group_.run([&](RankContext& ctx) {
    ctx.waits.deadline = 60s;
    if (ctx.rank == 1 && ctx.role == Role::kCompute) throw std::runtime_error("dead");
    toy_launch(ctx, fields_);
  }),
               std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  expect_poisoned_then_recover("rank 1 (compute) failed in epoch 4294967293: dead");
}

TEST_P(FaultTest, ARankDiesAfterItsEntry) {
  EXPECT_THROW(group_.run([&](RankContext& ctx) {
    ctx.waits.deadline = 60s;
    if (ctx.rank == 3 && ctx.role == Role::kCompute) {
      enter(ctx, {.op = LaunchOp::kForward, .layer = static_cast<int32_t>(ctx.epoch & 7u)});
      throw std::logic_error("half way");
    }
    toy_launch(ctx, fields_);
  }),
               std::exception);
  ASSERT_TRUE(group_.is_poisoned());
  group_.recover();
  run_sound(5);
}

TEST_P(FaultTest, ARankSkipsItsExit) {
  EXPECT_THROW(group_.run([&](RankContext& ctx) {
    ctx.waits.deadline = 20s;
    if (ctx.rank == 0 && ctx.role == Role::kCompute) {
      enter(ctx, {.op = LaunchOp::kForward});
      return;
    }
    if (ctx.role == Role::kComm) {
      join_entry(ctx);
      finish_comm(ctx);
    } else {
      enter(ctx, {.op = LaunchOp::kForward});
      await_comm(ctx);
      ctx.waits.deadline = 100ms;
      leave(ctx);
    }
  }),
               Error);
  expect_poisoned_then_recover("waiting for pulled of rank 0");
}

TEST_P(FaultTest, ASignalIsLost) {
  EXPECT_THROW(group_.run([&](RankContext& ctx) {
    ctx.waits.deadline = 20s;
    if (ctx.role == Role::kComm) {
      join_entry(ctx);
      finish_comm(ctx);
      return;
    }
    enter(ctx, {.op = LaunchOp::kForward});
    uint32_t* const arrived = ctx.heap.at(1, fields_.arrived, ctx.epoch);
    if (ctx.rank != 3) add_signal(ctx, arrived, 1);
    if (ctx.rank == 1) {
      ctx.waits.deadline = 500ms;  // ranks 0 and 2 will have added by then
      wait_for(ctx, {.tag = WaitTag::kYCount, .word = arrived, .expected = 4});
    }
    leave(ctx);
  }),
               Error);
  expect_poisoned_then_recover(
      "rank 1 (compute) timed out in epoch 4294967294: waiting for "
      "y_count, expected 4, saw 3");
}

TEST_P(FaultTest, TheCommRoleDies) {
  if (GetParam() == 1) return;
  EXPECT_THROW(group_.run([&](RankContext& ctx) {
    ctx.waits.deadline = 60s;
    if (ctx.rank == 2 && ctx.role == Role::kComm) throw std::runtime_error("comm died");
    toy_launch(ctx, fields_);
  }),
               std::runtime_error);
  expect_poisoned_then_recover("rank 2 (comm) failed");
}

TEST_P(FaultTest, RecoverIsAllowedOnASoundGroup) {
  run_sound(7);
  group_.recover();
  run_sound(7);
  group_.recover();
  group_.recover();
  run_sound(3);
}

TEST_P(FaultTest, RecoversInEveryPartOfTheEpochSpace) {
  // 2^16 at a time, 65,536 recoveries go once around.
  for (int i = 0; i < 65'537; ++i) {
    group_.recover();
    if (i % 4'096 == 0) run_sound(2);
  }
}

INSTANTIATE_TEST_SUITE_P(Roles, FaultTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace megaflux
