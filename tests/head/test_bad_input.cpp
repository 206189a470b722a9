// Bad input on one rank: every rank gets the same clean error, nobody hangs, and the next step
// works.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "head/step_fixture.h"
#include "megaflux/base/check.h"

namespace megaflux {
namespace {

using test::head_config;
using test::random_routing;
using test::Ranks;

constexpr int32_t kExperts = 12;
constexpr int32_t kTopk = 3;
constexpr int32_t kMaxTokens = 40;

class BadInputTest : public ::testing::Test {
 protected:
  BadInputTest() : ranks_(head_config(kExperts, 4, 1, kTopk, kMaxTokens)) {
    Rng rng(2024);
    for (int rank = 0; rank < 4; ++rank) {
      routings_.push_back(random_routing(rng, 30, kTopk, kExperts));
    }
  }

  // `spoil` makes one rank's input bad; all ranks must throw `text`, and the step after must work.
  void expect_error(const std::function<void(int32_t rank, HeadInput& input)>& spoil,
                    ErrorCode code, const std::string& text) {
    std::vector<std::string> seen(4);
    bool has_thrown = false;
    try {
      ranks_.group().run(Role::kCompute, [&](RankContext& ctx) {
        HeadInput input{.routing = routings_[ctx.rank].view()};
        spoil(ctx.rank, input);
        try {
          const_cast<Head&>(ranks_.head(ctx.rank)).step(ctx, input);
        } catch (const Error& error) {
          seen[ctx.rank] = error.what();
          throw;
        }
      });
    } catch (const AgreedError& error) {
      has_thrown = true;
      EXPECT_EQ(error.code(), code);
    }
    EXPECT_TRUE(has_thrown);
    for (const std::string& words : seen) {
      EXPECT_EQ(words, seen[0]);
      EXPECT_NE(words.find(text), std::string::npos) << words;
    }
    EXPECT_FALSE(ranks_.group().is_poisoned()) << ranks_.group().failure_text();
    ranks_.step_with(routings_);
    EXPECT_GT(ranks_.head(3).loads().total_rows(), 0);
  }

  Ranks ranks_;
  std::vector<Routing> routings_;
};

TEST_F(BadInputTest, IC_06_IdsOutOfRange) {
  for (const int32_t id : {kExperts, -2, 1'000'000}) {
    Routing bad = routings_[2];
    bad.topk_ids[5 * kTopk + 1] = id;
    expect_error(
        [&](int32_t rank, HeadInput& input) {
          if (rank == 2) input.routing = bad.view();
        },
        ErrorCode::kBadInput,
        "rank 2: topk_ids[5][1]: " + std::to_string(id) + " is outside [-1, 12)");
  }
}

TEST_F(BadInputTest, IC_61_WideIdsAreNotCut) {
  std::vector<int64_t> ids(routings_[0].topk_ids.begin(), routings_[0].topk_ids.end());
  ids[0] = (int64_t{1} << 32) + 1;
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank != 0) return;
        input.routing.id_type = IdType::kInt64;
        input.routing.topk_ids = ids.data();
      },
      ErrorCode::kBadInput, "rank 0: topk_ids[0][0]: 4294967297 is outside [-1, 12)");
}

TEST_F(BadInputTest, IC_49_MoreThanTMaxTokensNamesBoth) {
  Rng rng(3);
  const Routing long_routing = random_routing(rng, kMaxTokens + 1, kTopk, kExperts);
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank == 1) input.routing = long_routing.view();
      },
      ErrorCode::kBadInput, "rank 1: 41 tokens exceed T_max = 40 tokens a rank");
}

TEST_F(BadInputTest, AnotherTopk) {
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank == 3) input.routing.topk = 2;
      },
      ErrorCode::kBadInput, "rank 3: topk: 2, the session has 3");
}

TEST_F(BadInputTest, MissingPointers) {
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank == 0) input.routing.topk_ids = nullptr;
      },
      ErrorCode::kBadInput, "rank 0: topk_ids is null with 30 tokens");
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank == 0) input.routing.topk_weights = nullptr;
      },
      ErrorCode::kBadInput, "rank 0: topk_weights is null with 30 tokens");
}

TEST_F(BadInputTest, NegativeTokens) {
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank == 1) input.routing.num_tokens = -5;
      },
      ErrorCode::kBadInput, "rank 1: num_tokens: -5 is negative");
}

TEST_F(BadInputTest, TheLowestRankSpeaksIfSeveralAreBad) {
  expect_error(
      [&](int32_t rank, HeadInput& input) {
        if (rank >= 1) input.routing.topk = rank;
      },
      ErrorCode::kBadInput, "rank 1: topk: 1");
}

TEST_F(BadInputTest, LayersDisagree) {
  expect_error([](int32_t rank, HeadInput& input) { input.layer = rank == 2 ? 6 : 5; },
               ErrorCode::kDisagree,
               "ranks disagree: rank 2 entered epoch 1 with layer 6, rank 0 with layer 5");
}

TEST_F(BadInputTest, ResidencyDisagrees) {
  const std::vector<int32_t> none(4, -1);
  const std::vector<int32_t> one = {-1, 3, -1, -1};
  expect_error([&](int32_t rank, HeadInput& input) { input.resident = rank == 1 ? one : none; },
               ErrorCode::kDisagree,
               "ranks disagree: rank 1 entered epoch 1 with residency hash 0x");
  expect_error([](int32_t rank, HeadInput& input) { input.weight_version = rank == 3; },
               ErrorCode::kDisagree, "ranks disagree: rank 3");
}

TEST_F(BadInputTest, AWrongResidencyTableOnAllRanks) {
  const std::vector<int32_t> too_long(5, -1);
  expect_error([&](int32_t, HeadInput& input) { input.resident = too_long; }, ErrorCode::kBadInput,
               "resident");
}

TEST(HeadConfig, DisagreementOnTheConfigIsCaught) {
  std::vector<HeadConfig> configs(3, head_config(kExperts, 3, 1, kTopk, kMaxTokens));
  configs[1].plan.slack_ppm = 10'000;
  Ranks ranks(configs);
  const std::vector<Routing> routings(3, {0, kTopk, {}, {}});
  try {
    ranks.step_with(routings);
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDisagree);
    EXPECT_NE(std::string(error.what()).find("rank 1 entered epoch 1 with config hash"),
              std::string::npos)
        << error.what();
  }
}

TEST(HeadConfig, EveryFieldEntersTheHash) {
  const HeadConfig base = head_config(kExperts, 3, 1, kTopk, kMaxTokens);
  const uint64_t hash = head_config_hash(base);
  HeadConfig other = base;
  EXPECT_EQ(head_config_hash(other), hash);
  other.topk += 1;
  EXPECT_NE(head_config_hash(other), hash);
  other = base;
  other.max_tokens += 1;
  EXPECT_NE(head_config_hash(other), hash);
  other = base;
  other.session_hash += 1;
  EXPECT_NE(head_config_hash(other), hash);
  other = base;
  other.plan.lambda_blocks += 1;
  EXPECT_NE(head_config_hash(other), hash);
}

TEST(HeadConfig, BadValuesAreRefused) {
  Layout layout;
  EXPECT_THROW(add_head_fields(layout, head_config(0, 2, 0, 1, 1)), Error);
  EXPECT_THROW(add_head_fields(layout, head_config(4, 2, 0, 0, 1)), Error);
  EXPECT_THROW(add_head_fields(layout, head_config(4, 2, 0, 65, 1)), Error);
  EXPECT_THROW(add_head_fields(layout, head_config(4, 2, 0, 1, -1)), Error);
  const HeadConfig config = head_config(4, 2, 0, 2, 8);
  const RouteFields routes = add_head_fields(layout, config);
  EXPECT_THROW(Head(head_config(5, 2, 0, 2, 8), routes), Error);
  EXPECT_THROW(Head(head_config(4, 2, 0, 2, 9), routes), Error);
  // A group of another size: the head refuses before any exchange.
  Layout own;
  const RouteFields own_routes = add_head_fields(own, config);
  Head head(config, own_routes);
  ThreadsGroup group({.num_ranks = 1, .payload_words = 4}, own);
  EXPECT_THROW(group.run([&](RankContext& ctx) { head.step(ctx, {}); }), Error);
}

TEST(GatherLoads, TwoToThe31RowsAreRefusedByEveryRank) {
  const GatherConfig config = {.num_experts = 2, .topk = 1, .max_tokens = 4};
  Layout layout;
  const RouteFields routes = add_route_fields(layout, 2, 1, 4);
  ThreadsGroup group({.num_ranks = 2, .payload_words = 2}, layout);
  LoadGatherer gatherer(config, routes, 2);
  const int32_t ids[2] = {1, 1};
  const float weights[2] = {1, 1};
  const RoutingView routing = {
      .num_tokens = 2, .topk = 1, .topk_ids = ids, .topk_weights = weights};
  try {
    group.run([&](RankContext& ctx) {
      const uint32_t claimed[2] = {0, 0x7ffffffeu};  // with rank 0's two rows: 2^31
      if (ctx.rank == 1) return enter(ctx, {}, claimed);
      gatherer.gather(ctx, {}, routing);
    });
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("at most 2147483647"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(group.is_poisoned());
}

}  // namespace
}  // namespace megaflux
