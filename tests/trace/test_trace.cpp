#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

TEST(Trace, HeaderExample) {
  const Trace trace(small_data());
  EXPECT_EQ(trace.num_steps(), 2);
  EXPECT_EQ(trace.num_layers(), 2);
  EXPECT_EQ(trace.num_tokens(0), 4);
  EXPECT_EQ(trace.layer_index(7), 1);
  const LoadTable loads = trace.loads(0, 0, 2);
  EXPECT_EQ(std::vector<int32_t>(loads.rows_of_source(0).begin(), loads.rows_of_source(0).end()),
            (std::vector<int32_t>{1, 1, 0}));
  EXPECT_TRUE(loads.has_sources());
  const auto routing = trace.routing(0, 1, 2);
  EXPECT_EQ(routing[0].topk_ids, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(routing[1].topk_ids, (std::vector<int32_t>{2, 1, -1, 0, 0, 1}));
  EXPECT_EQ(routing[1].topk_weights[0], small_data().topk_weights[6]);
}

TEST(Trace, OtherNumbersOfRanksCutTheTokensEvenly) {
  const Trace trace(small_data());
  for (const int32_t ranks : {1, 2, 3, 4, 5, 9}) {
    const auto routing = trace.routing(1, 1, ranks);
    const LoadTable loads = trace.loads(1, 1, ranks);
    std::vector<int32_t> rows(3);
    std::vector<int32_t> all_ids;
    for (int32_t p = 0; p < ranks; ++p) {
      const int32_t even = 3 / ranks + (p < 3 % ranks);
      EXPECT_EQ(routing[p].num_tokens, ranks == 2 ? (p == 0 ? 3 : 0) : even);
      count_rows(routing[p].view(), rows);
      EXPECT_TRUE(std::equal(rows.begin(), rows.end(), loads.rows_of_source(p).begin()));
      all_ids.insert(all_ids.end(), routing[p].topk_ids.begin(), routing[p].topk_ids.end());
    }
    EXPECT_EQ(all_ids, (std::vector<int32_t>{0, 1, 1, -1, 1, 2})) << "tokens keep their order";
  }
}

TEST(Trace, DrawnWeightsBelongToTheTokenNotToTheCut) {
  TraceData data = small_data();
  data.topk_weights.clear();
  const Trace trace(std::move(data));
  EXPECT_FALSE(trace.has_weights());
  const auto whole = trace.routing(0, 0, 1, 42)[0].topk_weights;
  for (const int32_t ranks : {2, 3, 4}) {
    std::vector<float> weights;
    for (const Routing& part : trace.routing(0, 0, ranks, 42)) {
      weights.insert(weights.end(), part.topk_weights.begin(), part.topk_weights.end());
    }
    EXPECT_EQ(weights, whole);
  }
  EXPECT_NE(trace.routing(0, 0, 1, 43)[0].topk_weights, whole);
  EXPECT_FLOAT_EQ(whole[0] + whole[1], 1.0f);
}

TraceData counts_only(int32_t ranks) {
  TraceData data;
  data.meta = {.num_experts = 4, .topk = 2, .num_ranks = ranks, .layers = {0}};
  data.num_steps = 1;
  data.load_ranks = ranks;
  data.loads =
      ranks == 1 ? std::vector<int32_t>{9, 5, 6, 0} : std::vector<int32_t>{4, 3, 1, 0, 0, 2, 3, 5};
  return data;
}

TEST(Trace, CountsWithoutSourcesAreSplitEvenly) {
  const Trace trace(counts_only(1));
  const LoadTable loads = trace.loads(0, 0, 4);
  EXPECT_FALSE(loads.has_sources());
  EXPECT_EQ(loads.rows(0, 0), 3);
  EXPECT_EQ(loads.rows(3, 0), 2);
  EXPECT_EQ(loads.totals()[2], 6);
  EXPECT_EQ(trace.num_tokens(0), 10);
}

TEST(Trace, CountsWithSourcesKeepThemAtTheirNumberOfRanks) {
  const Trace trace(counts_only(2));
  EXPECT_TRUE(trace.loads(0, 0, 2).has_sources());
  EXPECT_EQ(trace.loads(0, 0, 2).rows(1, 3), 5);
  const LoadTable other = trace.loads(0, 0, 4);
  EXPECT_FALSE(other.has_sources());
  EXPECT_EQ(other.totals()[3], 5);
}

TEST(Trace, CountsBecomeTokensThatAddUp) {
  for (const int32_t recorded_ranks : {1, 2}) {
    const Trace trace(counts_only(recorded_ranks));
    for (const int32_t ranks : {1, 2, 3}) {
      const auto routing = trace.routing(0, 0, ranks, 9);
      ASSERT_EQ(static_cast<int32_t>(routing.size()), ranks);
      std::vector<int32_t> totals(4, 0);
      std::vector<int32_t> rows(4);
      for (int32_t p = 0; p < ranks; ++p) {
        check_routing(routing[p].view(), p, 4);
        count_rows(routing[p].view(), rows);
        for (int32_t e = 0; e < 4; ++e) totals[e] += rows[e];
        for (int32_t t = 0; t < routing[p].num_tokens; ++t) {
          EXPECT_NE(routing[p].topk_ids[2 * t], routing[p].topk_ids[2 * t + 1]);
        }
        if (recorded_ranks == 2 && ranks == 2) {
          const auto expected = trace.loads(0, 0, 2).rows_of_source(p)[0];
          EXPECT_EQ(rows[0], expected) << "each rank's tokens come from its own counts";
        }
      }
      const LoadTable loads = trace.loads(0, 0, 1);
      const auto expected = loads.totals();
      EXPECT_TRUE(std::equal(totals.begin(), totals.end(), expected.begin()));
    }
  }
}

TEST(Trace, CountsThatAreNoMultipleOfKAreScaled) {
  TraceData data = counts_only(1);
  data.loads = {50, 5, 6, 0};  // 61 rows, and expert 0 alone has more than 30 tokens
  const Trace trace(std::move(data));
  const auto routing = trace.routing(0, 0, 1);
  EXPECT_EQ(routing[0].num_tokens, 30);
  std::vector<int32_t> rows(4);
  count_rows(routing[0].view(), rows);
  EXPECT_EQ(rows, (std::vector<int32_t>{30, 14, 16, 0}));
}

TEST(Trace, TopkThatIsNotStatedIsFineUntilIdsAreAskedFor) {
  TraceData data = counts_only(1);
  data.meta.topk = 0;
  const Trace trace(std::move(data), "x.npz");
  EXPECT_EQ(trace.loads(0, 0, 2).total_rows(), 20);
  EXPECT_EQ(trace.num_tokens(0), 0);
  expect_bad_input([&] { trace.routing(0, 0, 2); }, {"x.npz", "topk", "not stated"});
}

TEST(Trace, PlacesThatDoNotExist) {
  const Trace trace(small_data(), "x.npz");
  expect_bad_input([&] { trace.loads(2, 0, 2); }, {"x.npz", "step: 2", "[0, 2)"});
  expect_bad_input([&] { trace.loads(-1, 0, 2); }, {"step: -1"});
  expect_bad_input([&] { trace.routing(0, 2, 2); }, {"layer idx: 2", "[0, 2)"});
  expect_bad_input([&] { trace.routing(0, 0, 0); }, {"num_ranks: 0", "1024"});
  expect_bad_input([&] { trace.loads(0, 0, 1025); }, {"num_ranks: 1025"});
  expect_bad_input([&] { trace.num_tokens(5); }, {"step: 5"});
  expect_bad_input([&] { (void)trace.layer_index(4); }, {"no model layer 4", "3 7"});
}

// One broken thing at a time; the message names array, place, value and limit.
TEST(Trace, BadInputNamesArrayPlaceAndValue) {
  const auto refused = [](auto&& change, std::vector<std::string> words) {
    TraceData data = small_data();
    change(data);
    words.push_back("x.npz");
    expect_bad_input([&] { Trace(std::move(data), "x.npz"); }, words);
  };
  using D = TraceData;
  refused([](D& d) { d.loads[7] = -3; },
          {"loads", "step 0", "layer idx 1", "rank 0", "expert 1", "-3 is negative"});
  refused([](D& d) { d.loads[13] += 1; }, {"loads and topk_ids disagree", "step 1", "layer idx 0",
                                           "rank 0", "expert 1", "2 rows", "1 ids"});
  refused([](D& d) { d.loads[0] = d.loads[1] = 2147483647; }, {"loads", "2147483647 rows"});
  refused([](D& d) { d.loads.pop_back(); }, {"loads", "23 elements", "24 expected"});
  refused([](D& d) { d.topk_ids[5] = 3; },
          {"topk_ids", "token 1", "layer idx 0", "k 1", "3 is outside [-1, 3)"});
  refused([](D& d) { d.topk_ids[5] = -2; }, {"topk_ids", "-2"});
  refused(
      [](D& d) {
        d.topk_ids.push_back(0);
        d.topk_weights.push_back(0.5f);
      },
      {"topk_ids", "29 elements", "rows of L x K = 4"});
  refused([](D& d) { d.step_offsets[1] = 9; }, {"step_offsets", "falls from 9 to 7", "step 1"});
  refused([](D& d) { d.step_offsets[2] = 8; }, {"step_offsets", "0 to 8", "0 to 7 tokens"});
  refused([](D& d) { d.step_offsets[0] = -1; }, {"step_offsets", "-1"});
  refused([](D& d) { d.rank_offsets[1] = 5; }, {"rank_offsets", "falls inside step 0"});
  refused([](D& d) { d.rank_offsets[3] = 3; }, {"rank_offsets", "step 1", "3 to 7"});
  refused([](D& d) { d.rank_offsets.clear(); }, {"rank_offsets is missing"});
  refused([](D& d) { d.topk_weights.pop_back(); }, {"topk_weights", "27 elements", "28"});
  refused([](D& d) { d.realised_rows[2] = -1; }, {"realised_rows", "-1 is negative"});
  refused([](D& d) { d.realised_rows.pop_back(); }, {"realised_rows", "7 elements", "8"});
  refused([](D& d) { d.phase_us.pop_back(); }, {"phase_us", "63 elements", "64"});
  refused([](D& d) { d.flags.push_back(0); }, {"flags", "5 elements", "4"});
  refused([](D& d) { d.instances.pop_back(); }, {"instances", "rows of 6"});
  refused([](D& d) { d.instances[6] = 2; }, {"instances", "row 1, step: 2", "[0, 1]"});
  refused([](D& d) { d.instances[4] = -2; }, {"instances", "row 0, slot: -2", "[-1, 1023]"});
  refused([](D& d) { d.load_ranks = 3; }, {"loads", "3 ranks", "num_ranks = 2"});
  refused([](D& d) { d.num_steps = 0; }, {"no step"});
  refused([](D& d) { d.meta.num_experts = 4097; }, {"num_experts: 4097", "[1, 4096]"});
  refused([](D& d) { d.meta.topk = 65; }, {"topk: 65", "[0, 64]"});
  refused([](D& d) { d.meta.num_ranks = 0; }, {"num_ranks: 0", "[1, 1024]"});
  refused([](D& d) { d.meta.layers = {7, 7}; }, {"layer 7 stands twice"});
  refused([](D& d) { d.meta.layers.clear(); }, {"number of layers: 0", "1024"});
  refused([](D& d) { d.meta.layers = {-1, 2}; }, {"layers: -1"});
  refused([](D& d) { d.meta.first_step = -4; }, {"first_step: -4"});
  refused([](D& d) { d = {.meta = d.meta, .num_steps = 1}; }, {"neither", "loads", "topk_ids"});
}

RC_GTEST_PROP(Trace, EvenCuts, ()) {
  const auto first = *rc::gen::inRange<int64_t>(0, 1000);
  const auto length = *rc::gen::inRange<int64_t>(0, 1000);
  const auto parts = *rc::gen::inRange(1, 50);
  const auto cuts = even_cuts(first, first + length, parts);
  RC_ASSERT(cuts.size() == static_cast<size_t>(parts) + 1);
  RC_ASSERT(cuts.front() == first);
  RC_ASSERT(cuts.back() == first + length);
  for (int32_t p = 0; p < parts; ++p) {
    RC_ASSERT(cuts[p + 1] - cuts[p] == length / parts + (p < length % parts));
  }
}

}  // namespace
}  // namespace megaflux
