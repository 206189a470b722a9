#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "megaflux/moe/owner_table.h"
#include "moe/expect_error.h"

namespace megaflux {
namespace {

TEST(OwnerTable, HeaderExample) {
  EXPECT_EQ(contiguous_owners(10, 4), (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(owned_experts(contiguous_owners(7, 8), 8)[7], 0);
}

TEST(OwnerTable, IC_20_ExpertsThatTheRanksDoNotDivide) {
  EXPECT_EQ(owned_experts(contiguous_owners(10, 4), 4), (std::vector<int32_t>{3, 3, 2, 2}));
  EXPECT_EQ(owned_experts(contiguous_owners(160, 6), 6),
            (std::vector<int32_t>{27, 27, 27, 27, 26, 26}));
  EXPECT_EQ(owned_experts(contiguous_owners(256, 6), 6),
            (std::vector<int32_t>{43, 43, 43, 43, 42, 42}));
  EXPECT_EQ(owned_experts(contiguous_owners(7, 8), 8),
            (std::vector<int32_t>{1, 1, 1, 1, 1, 1, 1, 0}));
}

TEST(OwnerTable, IC_22_EveryExtent) {
  for (const int32_t experts : {1, 3, 10, 64, 96, 160, 384, 512, 896, 1024, 1025, 2048}) {
    for (const int32_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 72}) {
      const auto owner_of = contiguous_owners(experts, ranks);
      ASSERT_EQ(static_cast<int32_t>(owner_of.size()), experts);
      ASSERT_TRUE(std::is_sorted(owner_of.begin(), owner_of.end()));
      const auto owned = owned_experts(owner_of, ranks);
      ASSERT_LE(owned.front() - owned.back(), 1);
      ASSERT_TRUE(std::is_sorted(owned.rbegin(), owned.rend()));
    }
  }
}

TEST(OwnerTable, LocalIndexAscendsWithTheExpert) {
  const std::vector<int32_t> scattered = {2, 0, 2, 1, 0, 2};
  EXPECT_EQ(local_index_of(scattered, 3), (std::vector<int32_t>{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(owned_experts(scattered, 4), (std::vector<int32_t>{2, 1, 3, 0}));
}

TEST(OwnerTable, BadInputNamesTheExpert) {
  expect_bad_input([] { contiguous_owners(0, 4); }, {"num_experts: 0"});
  expect_bad_input([] { contiguous_owners(4, 0); }, {"num_ranks: 0"});
  for (const int32_t rank : {3, -1, std::numeric_limits<int32_t>::min()}) {
    const std::vector<int32_t> owner_of = {0, rank};
    expect_bad_input([&] { local_index_of(owner_of, 3); },
                     {"expert 1", std::to_string(rank), "[0, 3)"});
    expect_bad_input([&] { owned_experts(owner_of, 3); },
                     {"expert 1", std::to_string(rank), "[0, 3)"});
  }
}

}  // namespace
}  // namespace megaflux
