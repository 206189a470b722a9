#include "megaflux/head/head.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "head/step_fixture.h"
#include "megaflux/base/check.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

using test::head_config;
using test::random_routing;
using test::Ranks;

Routing make_routing(int32_t topk, std::vector<int32_t> ids) {
  const auto num_tokens = static_cast<int32_t>(ids.size()) / topk;
  std::vector<float> weights(ids.size(), 0.5f);
  return {num_tokens, topk, std::move(ids), std::move(weights)};
}

TEST(GatherLoads, HeaderExample) {
  Ranks ranks(head_config(3, 2, 0, 2, 4));
  ranks.step_with({make_routing(2, {0, 2, 0, -1}), make_routing(2, {})});
  for (int32_t rank = 0; rank < 2; ++rank) {
    const LoadTable& loads = ranks.head(rank).loads();
    EXPECT_TRUE(std::ranges::equal(loads.rows_of_source(0), std::vector<int32_t>{2, 0, 1}));
    EXPECT_TRUE(std::ranges::equal(loads.rows_of_source(1), std::vector<int32_t>{0, 0, 0}));
  }
}

// Every (source, token, k) is computed by exactly one rank, and all ranks decided alike.
void expect_complete(const Ranks& ranks, const HeapView& heap,
                     const std::vector<Routing>& routings) {
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> expected, computed;
  for (size_t source = 0; source < routings.size(); ++source) {
    const Routing& routing = routings[source];
    for (int32_t token = 0; token < routing.num_tokens; ++token) {
      for (int32_t k = 0; k < routing.topk; ++k) {
        const int32_t expert = routing.topk_ids[token * routing.topk + k];
        if (expert >= 0) expected[{static_cast<int32_t>(source), token, k}] = expert;
      }
    }
  }
  for (int32_t rank = 0; rank < ranks.num_ranks(); ++rank) {
    const Head& head = ranks.head(rank);
    RC_ASSERT(head.plan() == ranks.head(0).plan());
    RC_ASSERT(head.report().has_plan());
    RC_ASSERT(head.work_list().rank() == rank);
    for (const Part& part : head.work_list().parts()) {
      std::vector<RowOrigin> origins(part.num_rows);
      locate_rows(heap, ranks.routes(), head.loads(), part.expert, part.first_row, origins);
      for (const RowOrigin& row : origins) {
        const auto key = std::tuple(row.source, row.token, row.k);
        RC_ASSERT(computed.emplace(key, part.expert).second);
      }
    }
  }
  RC_ASSERT(computed == expected);
}

RC_GTEST_PROP(Head, EveryRowIsComputedOnceAndAllRanksAgree, ()) {
  const auto num_ranks = *rc::gen::inRange(1, 7);
  const auto num_experts = *rc::gen::inRange(1, 20);
  const auto topk = *rc::gen::inRange(1, 5);
  HeadConfig config = head_config(num_experts, num_ranks, *rc::gen::inRange(0, 3), topk, 200,
                                  *rc::gen::element(1, 7, 16, 128));
  config.plan.planner = *rc::gen::element(PlannerKind::kMegaflux, PlannerKind::kPaper,
                                          PlannerKind::kQuota, PlannerKind::kFixed);
  Ranks ranks(config);
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  for (int step = 0; step < 3; ++step) {
    std::vector<Routing> routings;
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      const auto num_tokens = static_cast<int32_t>(rng.below(4) == 0 ? 0 : rng.below(201));
      routings.push_back(random_routing(rng, num_tokens, topk, num_experts));
    }
    ranks.step_with(routings);
    expect_complete(ranks, ranks.group().heap(), routings);
  }
}

TEST(Head, MostRowsOfAStepFollowFromTheConfiguration) {
  EXPECT_EQ(max_step_rows(head_config(16, 3, 1, 4, 100)), 1200);
  EXPECT_EQ(max_step_rows(head_config(16, 3, 1, 4, 0)), 1);
  EXPECT_EQ(max_step_rows(head_config(64, 64, 1, 64, 1 << 20)), INT32_MAX);
}

TEST(Head, IC_13_TokensBeyondTheValidOnesAreIgnored) {
  Ranks ranks(head_config(16, 2, 1, 4, 1024));
  Rng rng(13);
  const Routing clean = random_routing(rng, 300, 4, 16);
  Routing stale = clean;
  stale.num_tokens = 1024;
  for (int32_t i = 300 * 4; i < 1024 * 4; ++i) stale.topk_ids.push_back(1'000'000 + i);
  stale.topk_weights.resize(1024 * 4, 1.0f);
  ranks.step_with({clean, clean});
  const Plan expected = ranks.head(0).plan();
  int32_t num_valid = 300;
  ranks.step([&](int32_t) {
    RoutingView view = stale.view();
    view.num_valid_tokens = &num_valid;
    return HeadInput{.routing = view};
  });
  EXPECT_TRUE(ranks.head(0).plan() == expected);
  // The same buffer with another count.
  num_valid = 0;
  ranks.step([&](int32_t) {
    RoutingView view = stale.view();
    view.num_valid_tokens = &num_valid;
    return HeadInput{.routing = view};
  });
  EXPECT_EQ(ranks.head(1).loads().total_rows(), 0);
}

TEST(Head, IC_61_IdTypesGiveIdenticalPlans) {
  Ranks ranks(head_config(24, 3, 2, 3, 128));
  Rng rng(61);
  const Routing routing = random_routing(rng, 128, 3, 24);
  const std::vector<int16_t> narrow(routing.topk_ids.begin(), routing.topk_ids.end());
  const std::vector<int64_t> wide(routing.topk_ids.begin(), routing.topk_ids.end());
  ranks.step_with({routing, routing, routing});
  const Plan expected = ranks.head(0).plan();
  ranks.step([&](int32_t rank) {
    RoutingView view = routing.view();
    if (rank == 1) view.id_type = IdType::kInt16, view.topk_ids = narrow.data();
    if (rank == 2) view.id_type = IdType::kInt64, view.topk_ids = wide.data();
    return HeadInput{.routing = view};
  });
  EXPECT_TRUE(ranks.head(2).plan() == expected);
}

TEST(Head, IC_11_AnIdTwiceCountsTwice) {
  Ranks ranks(head_config(8, 2, 1, 4, 4));
  ranks.step_with({make_routing(4, {3, 3, 7, 1}), make_routing(4, {})});
  EXPECT_EQ(ranks.head(1).loads().rows(0, 3), 2);
}

TEST(Head, IC_12_PadsOfMinusOneCostNothing) {
  Ranks ranks(head_config(16, 8, 1, 2, 512));
  Rng rng(12);
  std::vector<Routing> routings(8, make_routing(2, std::vector<int32_t>(1024, -1)));
  for (int32_t& id : routings[0].topk_ids) id = static_cast<int32_t>(rng.below(16));
  ranks.step_with(routings);
  int64_t num_rows = 0;
  for (int32_t rank = 0; rank < 8; ++rank) num_rows += ranks.head(rank).work_list().num_rows();
  EXPECT_EQ(num_rows, 1024);
}

TEST(Head, IC_14_UnevenAndEmptyRanks) {
  Ranks four(head_config(8, 4, 1, 2, 4));
  const Routing all_to_zero = make_routing(2, {0, 1, 1, 0, 0, 1, 1, 0});
  four.step_with({make_routing(2, {0, 6}), all_to_zero, all_to_zero, all_to_zero});
  EXPECT_EQ(four.head(3).loads().total_rows(), 26);
  Ranks sixteen(head_config(16, 16, 1, 2, 1));
  sixteen.step([&](int32_t rank) {
    static const Routing one = make_routing(2, {5, 9});
    if (rank == 0) return HeadInput{.routing = one.view()};
    return HeadInput{.routing = {.num_tokens = 0, .topk = 2}};  // null pointers
  });
  EXPECT_EQ(sixteen.head(15).loads().total_rows(), 2);
}

TEST(Head, IC_49_TMaxIsTheLimit) {
  Ranks ranks(head_config(8, 3, 1, 2, 7));
  Rng rng(49);
  ranks.step_with(
      {random_routing(rng, 0, 2, 8), random_routing(rng, 1, 2, 8), random_routing(rng, 6, 2, 8)});
  ranks.step_with(
      {random_routing(rng, 7, 2, 8), random_routing(rng, 7, 2, 8), random_routing(rng, 7, 2, 8)});
  EXPECT_GT(ranks.head(0).loads().total_rows(), 0);
}

TEST(Head, IC_31_ManyRunsUnderDelaysGiveTheSameBytes) {
  Ranks ranks(head_config(32, 4, 2, 4, 64), 2);
  Rng rng(31);
  std::vector<Routing> routings;
  for (int rank = 0; rank < 4; ++rank) routings.push_back(random_routing(rng, 64, 4, 32));
  ranks.step_with(routings);
  const Plan expected = ranks.head(0).plan();
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    ranks.group().set_delay_fuzz(seed);
    ranks.step_with(routings);
    for (int32_t rank = 0; rank < 4; ++rank) ASSERT_TRUE(ranks.head(rank).plan() == expected);
  }
}

TEST(Head, IC_36_OrphansAreAnOutcomeOnEveryRank) {
  HeadConfig config = head_config(64, 8, 1, 2, 4);
  config.plan.active = {1, 1, 1, 0, 1, 1, 1, 1};
  Ranks ranks(config);
  const Routing sound = make_routing(2, {0, 9});
  std::vector<Routing> routings(8, sound);
  routings[5] = make_routing(2, {25, 63});  // expert 25 lives on rank 3
  ranks.step_with(routings);
  for (int32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(ranks.head(rank).report().orphans, std::vector<int32_t>{25});
    EXPECT_TRUE(ranks.head(rank).work_list().parts().empty());
  }
  ranks.step_with(std::vector<Routing>(8, sound));
  EXPECT_TRUE(ranks.head(7).report().has_plan());
}

TEST(Head, PlansFromOutsideAreCheckedAndTaken) {
  Ranks ranks(head_config(8, 2, 1, 2, 64));
  Rng rng(7);
  const std::vector<Routing> routings = {random_routing(rng, 64, 2, 8),
                                         random_routing(rng, 50, 2, 8)};
  ranks.step_with(routings);
  const Plan plan = ranks.head(0).plan();
  const auto with_plan = [&](int32_t rank) {
    return HeadInput{.routing = routings[rank].view(), .outside_plan = plan.bytes()};
  };
  ranks.step(with_plan);
  EXPECT_TRUE(ranks.head(1).plan() == plan.marked_from_outside());
  // The same plan for other loads is illegal, on every rank, and the group goes on.
  const Routing other = random_routing(rng, 3, 2, 8);
  EXPECT_THROW(ranks.step([&](int32_t) {
    return HeadInput{.routing = other.view(), .outside_plan = plan.bytes()};
  }),
               AgreedError);
  // One rank alone with a plan from outside is a disagreement.
  EXPECT_THROW(ranks.step([&](int32_t rank) {
    HeadInput input = with_plan(rank);
    if (rank == 1) input.outside_plan = {};
    return input;
  }),
               AgreedError);
  ranks.step_with(routings);
  EXPECT_TRUE(ranks.head(1).plan() == plan);
}

}  // namespace
}  // namespace megaflux
