// The portfolio against optima that cbc has proven: tests/optimum/optima.csv.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "megaflux/base/rng.h"
#include "megaflux/trace/deflate.h"
#include "optimum/optima_table.h"

namespace megaflux::optimum {
namespace {

const std::string kData = std::string(MF_SOURCE_DIR) + "/data";
const std::string kTable = std::string(MF_SOURCE_DIR) + "/tests/optimum/optima.csv";

int64_t planned_finish(const OptimumCase& c) {
  Plan plan;
  PlanReport report;
  make_planner(c.config)->plan(c.loads, {}, plan, report);
  return static_cast<int64_t>(plan.header().objective);
}

// Slots are so short in these that only a puzzle of whole experts meets the optimum.
const std::vector<std::string> kExceptions = {
    "hot-1.5,E=128,P=8,s=2,beta=64,K=4,T=1024,owners=shuffled,speed=random",  // 80, optimum 78
    "flat-4,E=64,P=4,s=3,beta=16,inactive=2,speed=random",                    // 994, optimum 988
    "hot-1.5,E=128,P=4,s=2,beta=64,K=4,T=1024,base=random",                   // 87, optimum 85
};

TEST(Optimum, the_table_is_about_these_cases) {
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  const std::vector<OptimumCase> cases = make_cases(kData);
  const std::vector<KnownOptimum> known = read_optima(kTable);
  ASSERT_EQ(cases.size(), size_t{kNumCases});
  ASSERT_EQ(known.size(), cases.size());
  for (size_t n = 0; n < cases.size(); ++n) {
    EXPECT_EQ(known[n].name, cases[n].name);
    EXPECT_EQ(known[n].hash, problem_hash(cases[n])) << cases[n].name;
    EXPECT_EQ(known[n].bound, trivial_bound(cases[n].config, cases[n].loads)) << cases[n].name;
    EXPECT_GE(known[n].bounds.lower, known[n].bound) << cases[n].name;
    EXPECT_LE(known[n].bounds.lower, known[n].bounds.upper) << cases[n].name;
  }
}

TEST(Optimum, the_portfolio_is_within_a_block_or_half_a_percent) {
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  const std::vector<OptimumCase> cases = make_cases(kData);
  const std::vector<KnownOptimum> known = read_optima(kTable);
  ASSERT_EQ(known.size(), cases.size());
  size_t num_good = 0;
  for (size_t n = 0; n < cases.size(); ++n) {
    const int64_t finish = planned_finish(cases[n]);
    const int64_t lower = known[n].bounds.lower;
    EXPECT_GE(finish, lower) << cases[n].name << ": earlier than what is proven";
    EXPECT_LE(finish * 100, lower * 103) << cases[n].name;
    const bool is_good = finish <= good_finish(lower);
    num_good += is_good;
    EXPECT_TRUE(is_good || std::count(kExceptions.begin(), kExceptions.end(), cases[n].name) == 1)
        << cases[n].name << ": " << finish << ", optimum " << lower << ", not a known exception";
  }
  RecordProperty("within", static_cast<int>(num_good));
  EXPECT_GE(num_good * 100, cases.size() * 98);
}

TEST(OptimumProgram, asks_what_the_planners_are_asked) {
  PlanConfig config;
  config.dims = {3, 2, 1, 4};
  config.owner_of = {0, 0, 1};
  config.speed = {1024, 512};
  const LoadTable loads = LoadTable::from_totals(2, std::vector<int64_t>{9, 4, 5});
  EXPECT_EQ(trivial_bound(config, loads), 4);  // capacities 4 and 2 hold 6 blocks
  EXPECT_EQ(feasibility_program(config, loads, 5),
            "Minimize\n nothing: 0 one\nSubject To\n unit: one = 1\n"
            " blocks_0: + x_0_0 + x_0_1 = 3\n"
            " blocks_1: + x_1_0 + x_1_1 = 1\n"
            " blocks_2: + x_2_0 + x_2_1 = 2\n"
            " load_0: + x_0_0 + x_1_0 + x_2_0 <= 5\n"
            " slots_0: + y_2_0 <= 1\n"
            " load_1: + x_0_1 + x_1_1 + x_2_1 <= 2\n"
            " slots_1: + y_0_1 + y_1_1 <= 1\n"
            " linkx_0_1: x_0_1 - 2 y_0_1 <= 0\n"
            " linkx_1_1: x_1_1 - 1 y_1_1 <= 0\n"
            " linkx_2_0: x_2_0 - 2 y_2_0 <= 0\n"
            "Binaries\n   y_0_1   y_1_1   y_2_0\nEnd\n");
}

// Optima that can be found by hand.
TEST(OptimumProgram, cbc_answers_it) {
  if (!has_cbc()) GTEST_SKIP() << "SKIPPED: cbc is not installed";
  PlanConfig config;
  config.dims = {4, 2, 1, 1};
  const LoadTable pair = LoadTable::from_totals(2, std::vector<int64_t>{5, 1, 2, 1});
  EXPECT_EQ(ask_cbc(config, pair, 5, 10), Answer::kFeasible);
  EXPECT_EQ(find_optimum(config, pair, 6, 10).upper, 5);
  // Rank 0 has 12 blocks in experts of 2, and one slot on each of the others: 12 - 2 * 2.
  config.dims = {8, 3, 1, 1};
  config.owner_of = {0, 0, 0, 0, 0, 0, 1, 2};
  const LoadTable flat = LoadTable::from_totals(3, std::vector<int64_t>{2, 2, 2, 2, 2, 2, 0, 0});
  EXPECT_EQ(trivial_bound(config, flat), 4);
  EXPECT_EQ(ask_cbc(config, flat, 7, 10), Answer::kInfeasible);
  const OptimumBounds bounds = find_optimum(config, flat, 12, 10);
  EXPECT_TRUE(bounds.is_proven());
  EXPECT_EQ(bounds.upper, 8);
  // Another domain, an inactive rank and other work close rank 2 in turn.
  config.domain_of = {0, 0, 1};
  EXPECT_EQ(find_optimum(config, flat, 12, 10).upper, 10);
  config.domain_of.clear();
  config.active = {1, 1, 0};
  EXPECT_EQ(find_optimum(config, flat, 12, 10).upper, 10);
  config.active.clear();
  config.base_blocks = {0, 0, 9};
  EXPECT_EQ(trivial_bound(config, flat), 9);
  EXPECT_EQ(find_optimum(config, flat, 12, 10).upper, 10);
}

// Both ends of the table's bounds, asked anew: all cases whose optimum is above the bound from
// capacities, and some of the others.
TEST(OptimumLiveSlow, cbc_proves_the_table_again) {
  if (!has_cbc()) GTEST_SKIP() << "SKIPPED: cbc is not installed";
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  constexpr int32_t kSeconds = 10;
  const std::vector<OptimumCase> cases = make_cases(kData);
  const std::vector<KnownOptimum> known = read_optima(kTable);
  ASSERT_EQ(known.size(), cases.size());
  Rng rng(300);
  int64_t num_asked = 0, num_unknown = 0;
  for (size_t n = 0; n < cases.size(); ++n) {
    const auto& [config, loads] = std::pair(cases[n].config, cases[n].loads);
    const OptimumBounds bounds = known[n].bounds;
    const bool is_hard = bounds.lower > known[n].bound;
    if (rng.below(is_hard ? 3 : 12) != 0) continue;
    SCOPED_TRACE(cases[n].name);
    std::vector<Answer> answers = {ask_cbc(config, loads, bounds.upper, kSeconds)};
    EXPECT_NE(answers[0], Answer::kInfeasible);
    if (is_hard) {
      answers.push_back(ask_cbc(config, loads, bounds.lower - 1, kSeconds));
      EXPECT_NE(answers[1], Answer::kFeasible);
    }
    num_asked += static_cast<int64_t>(answers.size());
    num_unknown += std::count(answers.begin(), answers.end(), Answer::kUnknown);
  }
  EXPECT_GE(num_asked, 20);
  EXPECT_LE(num_unknown * 2, num_asked) << "too little time for cbc proves nothing";
}

}  // namespace
}  // namespace megaflux::optimum
