#include "simulate/owner_suggestion.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "megaflux/moe/owner_table.h"
#include "simulate/trace_of_loads.h"

namespace megaflux::simulate {
namespace {

// The example of owner_suggestion.h.
TEST(OwnerSuggestion, KeepsHotExpertsApart) {
  const LayerHistory history{.num_experts = 4, .rows = {9, 7, 1, 1, 7, 9, 1, 1}};
  const auto by_default = contiguous_owners(4, 2);
  EXPECT_NEAR(mean_imbalance(history, by_default, 2), 16.0 / 9, 1e-12);
  const auto owners = suggest_owners(history, 2);
  EXPECT_NE(owners[0], owners[1]);
  EXPECT_NEAR(mean_imbalance(history, owners, 2), 10.0 / 9, 1e-12);
}

// Experts 0, 1, 2 and 4 are hot together in every other step, the others in between. All have the
// same mean, so that neither the default nor heaviest-first can tell.
TEST(OwnerSuggestion, LooksAtStepsAndNotAtMeansAlone) {
  LayerHistory history{.num_experts = 8, .rows = {}};
  for (int step = 0; step < 10; ++step) {
    for (int32_t e = 0; e < 8; ++e) {
      const bool is_first_set = e <= 2 || e == 4;
      history.rows.push_back(is_first_set == (step % 2 == 0) ? 100 : 1);
    }
  }
  EXPECT_GT(mean_imbalance(history, contiguous_owners(8, 2), 2), 1.4);
  EXPECT_DOUBLE_EQ(mean_imbalance(history, suggest_owners(history, 2), 2), 1);
}

// The search looks at 128 of 256 steps, those with even numbers; the others speak for the default.
TEST(OwnerSuggestion, AllStepsHaveTheLastWord) {
  LayerHistory history{.num_experts = 4, .rows = {}};
  for (int step = 0; step < 256; ++step) {
    const std::vector<int32_t> rows =
        step % 2 == 0 ? std::vector<int32_t>{11, 10, 10, 9} : std::vector<int32_t>{100, 0, 0, 100};
    history.rows.insert(history.rows.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(suggest_owners(history, 2), contiguous_owners(4, 2));
}

RC_GTEST_PROP(OwnerSuggestion, EvenSizesAndNeverWorseThanTheDefault, ()) {
  const auto num_experts = *rc::gen::inRange<int32_t>(1, 40);
  const auto num_ranks = *rc::gen::inRange<int32_t>(1, 12);
  const auto num_steps = *rc::gen::inRange<int32_t>(0, 6);
  const auto rows = *rc::gen::container<std::vector<int32_t>>(
      static_cast<size_t>(num_steps) * num_experts, rc::gen::inRange<int32_t>(0, 1000));
  const LayerHistory history{.num_experts = num_experts, .rows = rows};
  const auto owners = suggest_owners(history, num_ranks);
  const auto owned = owned_experts(owners, num_ranks);  // checks that ranks are in range
  const auto [least, most] = std::minmax_element(owned.begin(), owned.end());
  RC_ASSERT(*most - *least <= 1);
  RC_ASSERT(mean_imbalance(history, owners, num_ranks) <=
            mean_imbalance(history, contiguous_owners(num_experts, num_ranks), num_ranks));
  RC_ASSERT(owners == suggest_owners(history, num_ranks));
}

TEST(OwnerSuggestion, SplitsInTimeOnlyWhereThereIsTime) {
  const Trace trace = drawn_trace({.num_steps = 5, .num_layers = 2}, 1);
  const OwnerSplit split = split_for_owners(trace, select_cells(trace, {}));
  EXPECT_TRUE(split.is_held_out);
  EXPECT_EQ(split.chosen_by.size(), 4u);
  EXPECT_EQ(split.judged_by.size(), 6u);
  for (const Cell& cell : split.chosen_by) EXPECT_LT(cell.step, 2);
  for (const Cell& cell : split.judged_by) EXPECT_GE(cell.step, 2);
  const OwnerSplit one = split_for_owners(trace, select_cells(trace, {.end_step = 1}));
  EXPECT_FALSE(one.is_held_out);
  EXPECT_EQ(one.chosen_by, one.judged_by);
  TraceData data = trace.data();
  data.meta.time_ordered = false;
  const Trace unordered(std::move(data));
  EXPECT_FALSE(split_for_owners(unordered, select_cells(unordered, {})).is_held_out);
}

TEST(OwnerSuggestion, ATableForEveryLayerWhateverTheThreads) {
  const Trace trace = drawn_trace({.num_steps = 20, .num_layers = 4, .num_experts = 22}, 6);
  const auto cells = select_cells(trace, {.layers = {0, 1, 3}});
  const auto one = suggest_owners(trace, cells, 4, 1);
  EXPECT_EQ(one, suggest_owners(trace, cells, 4, 3));
  ASSERT_EQ(one.size(), 4u);
  EXPECT_EQ(one[2], contiguous_owners(22, 4));
  EXPECT_NE(one[0], contiguous_owners(22, 4));
}

}  // namespace
}  // namespace megaflux::simulate
