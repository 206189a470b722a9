#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "megaflux/base/rng.h"
#include "viewer/detail_choice.h"

namespace megaflux::viewer {
namespace {

std::vector<float> rising(int64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(DetailChoice, HeaderExample) {
  const std::vector<float> ones(10, 1.0f);
  const DetailChoice choice = choose_details(rising(10), ones, 3, {});
  EXPECT_EQ(choice.cells, (std::vector<uint32_t>{0, 4, 9}));
  EXPECT_EQ(choice.why, (std::vector<uint8_t>{kDetailEveryNth, kDetailMedian, kDetailWorst}));
  EXPECT_EQ(choice.text, "worst 1, around the median 1, every 10th 1; 3 of 10 cells");
}

TEST(DetailChoice, AllCellsWhereTheyFit) {
  const std::vector<float> ones(10, 1.0f);
  const DetailChoice choice = choose_details(rising(10), ones, 10, std::vector<uint32_t>{7});
  EXPECT_EQ(choice.cells.size(), 10u);
  EXPECT_EQ(choice.text, "all 10 cells");
  EXPECT_EQ(choice.why[7], kDetailEveryNth | kDetailAsked);
}

TEST(DetailChoice, AskedCellsComeOnTop) {
  const std::vector<float> ones(5000, 1.0f);
  const std::vector<uint32_t> asked = {1001, 1001, 4999};
  const DetailChoice choice = choose_details(rising(5000), ones, 1000, asked);
  const auto at = std::find(choice.cells.begin(), choice.cells.end(), 1001u) - choice.cells.begin();
  EXPECT_EQ(choice.why.at(at), kDetailAsked);
  EXPECT_EQ(choice.why.back(), kDetailWorst | kDetailAsked);
  EXPECT_NE(choice.text.find("asked for 1; "), std::string::npos) << choice.text;
}

// Half of the worst by what the plan leaves, half by what was there.
TEST(DetailChoice, WorstOfBothKinds) {
  std::vector<float> before(1000, 1.0f), after(1000, 1.0f);
  before[3] = 9;
  after[5] = 1.5f;
  const DetailChoice choice = choose_details(before, after, 6, {});
  const std::set<uint32_t> cells(choice.cells.begin(), choice.cells.end());
  EXPECT_TRUE(cells.count(3) == 1 && cells.count(5) == 1);
}

TEST(DetailChoice, CountsAddUpForAnySize) {
  Rng rng(5);
  for (const int64_t count : {1, 2, 3, 4, 5, 7, 100, 999, 1000, 1001, 1003, 1999, 2000, 54321}) {
    std::vector<float> before(count), after(count);
    for (int64_t i = 0; i < count; ++i) {
      before[i] = static_cast<float>(rng.below(20));
      after[i] = static_cast<float>(rng.below(3));
    }
    for (const int64_t most : {1, 2, 3, 4, 10, 1000}) {
      const DetailChoice choice = choose_details(before, after, most, {});
      ASSERT_LE(static_cast<int64_t>(choice.cells.size()), most);
      ASSERT_GE(static_cast<int64_t>(choice.cells.size()), std::min(count, (most + 1) / 2));
      ASSERT_TRUE(std::is_sorted(choice.cells.begin(), choice.cells.end()));
      ASSERT_EQ(choice.cells.size(), choice.why.size());
      ASSERT_EQ(std::set<uint32_t>(choice.cells.begin(), choice.cells.end()).size(),
                choice.cells.size());
      ASSERT_LT(choice.cells.back(), count);
      ASSERT_EQ(std::count(choice.why.begin(), choice.why.end(), 0), 0);
    }
  }
  EXPECT_EQ(choose_details(rising(54321), rising(54321), 1000, {}).text.substr(0, 9), "worst 334");
}

}  // namespace
}  // namespace megaflux::viewer
