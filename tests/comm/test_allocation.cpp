// No allocation per step: counts every operator new of the program while launches run.
#include <gtest/gtest.h>

#include "allocation/counted_allocation.h"
#include "comm/toy_launch.h"
#include "megaflux/comm/threads_group.h"

namespace megaflux {
namespace {

TEST(Allocation, NonePerLaunch) {
  for (const int32_t num_roles : {1, 2}) {
    Layout layout;
    const test::ToyFields fields = test::add_toy_fields(layout, 4);
    ThreadsGroup group({.num_ranks = 4, .num_roles = num_roles}, layout);
    const auto launch = [&](RankContext& ctx) { test::toy_launch(ctx, fields); };
    group.run(launch);
    const int64_t before = test::num_allocations();
    for (int i = 0; i < 50; ++i) group.run(launch);
    EXPECT_EQ(test::num_allocations() - before, 0);
  }
}

}  // namespace
}  // namespace megaflux
