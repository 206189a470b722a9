#include "megaflux/comm/entry_exit.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/toy_launch.h"
#include "megaflux/base/check.h"
#include "megaflux/comm/threads_group.h"
#include "megaflux/comm/wait.h"

namespace megaflux {
namespace {

using test::add_toy_fields;
using test::toy_launch;
using test::ToyFields;

void run_toys(const ThreadsConfig& config, int num_launches, std::optional<uint64_t> seed = {}) {
  Layout layout;
  const ToyFields fields = add_toy_fields(layout, config.num_ranks);
  ThreadsGroup group(config, layout);
  group.set_delay_fuzz(seed);
  group.run([&](RankContext& ctx) {
    for (int i = 0; i < num_launches; ++i) toy_launch(ctx, fields);
  });
}

TEST(EntryExit, TenThousandLaunchesBackToBack) {
  run_toys({.num_ranks = 3}, 10'000);
}

TEST(EntryExit, TwoRolesBackToBack) {
  run_toys({.num_ranks = 3, .num_roles = 2}, 2'000);
}

TEST(EntryExit, OneRank) {
  run_toys({.num_ranks = 1}, 100);
  run_toys({.num_ranks = 1, .num_roles = 2}, 100);
}

TEST(EntryExit, EpochsWrap) {
  for (const uint32_t start : {0xffffffffu, 0xfffffff0u, 0x7ffffff0u, 0x80000000u, 0u}) {
    run_toys({.num_ranks = 3, .start_epoch = start}, 40);
    run_toys({.num_ranks = 2, .num_roles = 2, .start_epoch = start}, 40);
  }
}

TEST(EntryExit, DelaysAtEverySignal) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    run_toys({.num_ranks = 4, .num_roles = seed % 2 == 0 ? 2 : 1, .start_epoch = 0xfffffff8u}, 20,
             seed);
  }
}

// Heads have no exit; the comm role must still read each of their entries before peers overwrite
// them.
TEST(EntryExit, HeadsInARowWithACommRoleThatLagsBehind) {
  ThreadsGroup group({.num_ranks = 3, .num_roles = 2, .start_epoch = 0xfffffff0u}, Layout());
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    group.set_delay_fuzz(seed);
    group.run([](RankContext& ctx) {
      for (int i = 0; i < 30; ++i) {
        const bool is_head = i % 5 != 4;
        if (ctx.role == Role::kComm) {
          join_entry(ctx);
          if (!is_head) finish_comm(ctx);
          continue;
        }
        enter(ctx, {.op = is_head ? LaunchOp::kHead : LaunchOp::kForward, .layer = i});
        if (!is_head) leave(ctx);
      }
    });
  }
}

TEST(EntryExit, AWholeLaunchOnTheComputeRoleAlone) {
  Layout layout;
  const ToyFields fields = add_toy_fields(layout, 3);
  ThreadsGroup group({.num_ranks = 3, .num_roles = 2}, layout);
  const auto launch = [&](RankContext& ctx) { toy_launch(ctx, fields); };
  for (int i = 0; i < 20; ++i) {
    group.run(Role::kCompute, launch);
    group.run(launch);
  }
}

TEST(EntryExit, PayloadsReachEveryRank) {
  constexpr int32_t kWords = 9;
  ThreadsGroup group({.num_ranks = 4, .payload_words = kWords}, Layout());
  const auto word = [](int32_t rank, uint32_t epoch, int32_t i) {
    return static_cast<uint32_t>(mix64(rank * 1000 + epoch * 10 + i));
  };
  group.run([&](RankContext& ctx) {
    for (int launch = 0; launch < 200; ++launch) {
      uint32_t mine[kWords];
      for (int32_t i = 0; i < kWords; ++i) mine[i] = word(ctx.rank, ctx.epoch + 1, i);
      enter(ctx, {.op = LaunchOp::kHead}, mine);
      for (int32_t peer = 0; peer < 4; ++peer) {
        for (int32_t i = 0; i < kWords; ++i) {
          MF_INVARIANT(payload_of(ctx, peer)[i] == word(peer, ctx.epoch, i), "peer ", peer);
        }
      }
    }
  });
}

TEST(EntryExit, TooLongAPayloadIsRefused) {
  ThreadsGroup group({.num_ranks = 1, .payload_words = 2}, Layout());
  const uint32_t words[3] = {1, 2, 3};
  EXPECT_THROW(group.run([&](RankContext& ctx) { enter(ctx, {}, words); }), Error);
}

// Runs one launch in which `make` gives every rank its words; returns what each rank threw.
std::vector<std::string> errors_of(ThreadsGroup& group,
                                   const std::function<EntryWords(int32_t)>& make,
                                   ErrorCode expected) {
  std::vector<std::string> words(static_cast<size_t>(group.num_ranks()));
  try {
    group.run([&](RankContext& ctx) {
      try {
        if (ctx.role == Role::kComm) {
          join_entry(ctx);
        } else {
          enter(ctx, make(ctx.rank));
        }
      } catch (const AgreedError& error) {
        EXPECT_EQ(error.code(), expected);
        if (ctx.role == Role::kCompute) words[ctx.rank] = error.what();
        throw;
      }
    });
    ADD_FAILURE() << "the ranks must disagree";
  } catch (const AgreedError& error) {
    for (const std::string& text : words) EXPECT_EQ(text, error.what());
  }
  EXPECT_FALSE(group.is_poisoned()) << group.failure_text();
  return words;
}

TEST(EntryExit, DisagreementNamesFieldAndBothValuesOnEveryRank) {
  struct Case {
    const char* text;
    EntryWords odd;
  };
  const EntryWords common = {
      .op = LaunchOp::kForward, .layer = 3, .plan_hash = 16, .config_hash = 17};
  const Case cases[] = {
      {"with op backward, rank 0 with op forward", {LaunchOp::kBackward, 3, 16, 17}},
      {"with layer 4, rank 0 with layer 3", {LaunchOp::kForward, 4, 16, 17}},
      {"with plan hash 0x11, rank 0 with plan hash 0x10", {LaunchOp::kForward, 3, 17, 17}},
      {"with config hash 0x10, rank 0 with config hash 0x11", {LaunchOp::kForward, 3, 16, 16}},
  };
  for (const int32_t num_roles : {1, 2}) {
    ThreadsGroup group({.num_ranks = 4, .num_roles = num_roles}, Layout());
    uint32_t epoch = 0;
    for (const Case& odd_case : cases) {
      const auto words = errors_of(
          group, [&](int32_t rank) { return rank == 2 ? odd_case.odd : common; },
          ErrorCode::kDisagree);
      ++epoch;
      EXPECT_EQ(words[0], "ranks disagree: rank 2 entered epoch " + std::to_string(epoch) + " " +
                              odd_case.text);
      // The group is in step and usable at once.
      group.run(Role::kCompute, [&](RankContext& ctx) { enter(ctx, common); });
      ++epoch;
    }
  }
}

TEST(EntryExit, HeadsDisagreeOnResidency) {
  ThreadsGroup group({.num_ranks = 2}, Layout());
  const auto words = errors_of(
      group,
      [](int32_t rank) {
        return EntryWords{.op = LaunchOp::kHead, .plan_hash = static_cast<uint64_t>(rank)};
      },
      ErrorCode::kDisagree);
  EXPECT_NE(words[1].find("with residency hash 0x1, rank 0 with residency hash 0x0"),
            std::string::npos)
      << words[1];
}

TEST(EntryExit, ARefusalReachesEveryRankAndLeavesTheGroupUsable) {
  Layout layout;
  const ToyFields fields = add_toy_fields(layout, 3);
  ThreadsGroup group({.num_ranks = 3, .payload_words = 4}, layout);
  for (int round = 0; round < 5; ++round) {
    int32_t num_threw[3] = {};
    try {
      group.run([&](RankContext& ctx) {
        const uint32_t payload[4] = {1, 2, 3, 4};
        const EntryWords words = {.op = LaunchOp::kHead};
        if (ctx.rank == 1) {
          post_refusal(ctx, words, ErrorCode::kBadInput, "rank 1: cannot");
        } else {
          post_entry(ctx, words, payload);
        }
        try {
          await_entries(ctx);
        } catch (const AgreedError&) {
          ++num_threw[ctx.rank];
          throw;
        }
      });
      FAIL();
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_STREQ(error.what(), "rank 1: cannot");
    }
    for (const int32_t count : num_threw) EXPECT_EQ(count, 1);
    // An odd number of launches between: a refused launch must have cleared the other bank.
    group.run([&](RankContext& ctx) { toy_launch(ctx, fields); });
    group.run([&](RankContext& ctx) { toy_launch(ctx, fields); });
  }
}

TEST(EntryExit, LongRefusalsAreCut) {
  ThreadsGroup group({.num_ranks = 2}, Layout());
  try {
    group.run([&](RankContext& ctx) {
      post_refusal(ctx, {}, ErrorCode::kUnsupported, std::string(1000, 'x'));
      await_entries(ctx);
    });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_EQ(error.what(), std::string(sizeof(EntrySlot::refusal) - 1, 'x'));
  }
}

TEST(EntryExit, EveryOpHasAName) {
  for (uint32_t op = 1; op <= static_cast<uint32_t>(LaunchOp::kReduceGradients); ++op) {
    EXPECT_NE(launch_op_name(static_cast<LaunchOp>(op)), "unknown");
  }
}

}  // namespace
}  // namespace megaflux
