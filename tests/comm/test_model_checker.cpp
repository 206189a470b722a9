#include "comm/model_checker.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace megaflux::test {
namespace {

constexpr LaunchKind kWork = LaunchKind::kWork;
constexpr LaunchKind kHead = LaunchKind::kHead;
constexpr LaunchKind kRefused = LaunchKind::kRefused;
constexpr LaunchKind kRecover = LaunchKind::kRecover;

// Between them they hold what any rule needs to matter: heads alone and in a row, work back to
// back, a refused launch between two of the same bank, a recovery, an idle rank, the wrap, two
// roles.
std::vector<ModelConfig> cases(Mutation mutation) {
  std::vector<ModelConfig> all;
  for (const int start : {0, 6, 13, 14}) {
    for (const std::vector<LaunchKind>& launches : {std::vector{kWork, kWork, kWork},
                                                    {kHead, kWork, kHead, kWork},
                                                    {kWork, kRefused, kWork},
                                                    {kHead, kHead, kHead, kWork},
                                                    {kWork, kHead, kHead, kWork}}) {
      all.push_back({.num_ranks = 2, .launches = launches, .start_epoch = start});
      all.push_back({.num_ranks = 2, .num_roles = 2, .launches = launches, .start_epoch = start});
    }
    all.push_back(
        {.num_ranks = 2, .launches = {kWork, kWork, kWork}, .start_epoch = start, .idle_rank = 1});
    all.push_back(
        {.num_ranks = 2, .launches = {kWork, kRecover, kWork, kHead}, .start_epoch = start});
    all.push_back(
        {.num_ranks = 2, .launches = {kHead, kRecover, kHead, kWork}, .start_epoch = start});
  }
  all.push_back({.num_ranks = 3, .launches = {kWork, kWork, kWork}, .start_epoch = 14});
  all.push_back({.num_ranks = 3, .launches = {kHead, kHead, kWork}, .start_epoch = 14});
  all.push_back({.num_ranks = 3, .launches = {kWork, kRefused, kWork}, .start_epoch = 14});
  all.push_back(
      {.num_ranks = 3, .launches = {kWork, kHead, kWork}, .start_epoch = 14, .idle_rank = 0});
  all.push_back({.num_ranks = 3, .num_roles = 2, .launches = {kHead, kWork}, .start_epoch = 14});
  for (const std::vector<LaunchKind>& launches :
       {std::vector{kWork, kWork, kWork}, {kHead, kHead, kHead, kWork}, {kHead, kWork, kHead}}) {
    for (const int num_ranks : {2, 3}) {
      all.push_back(
          {.num_ranks = num_ranks, .launches = launches, .start_epoch = 14, .late_rank = 0});
    }
  }
  for (ModelConfig& config : all) config.mutation = mutation;
  return all;
}

std::string words_of(const ModelResult& result) {
  std::string words = result.violation + " after:\n";
  for (const std::string& step : result.trace) words += "  " + step + "\n";
  return words;
}

TEST(ModelChecker, TheProtocolIsSafeAndFreeOfDeadlock) {
  int64_t num_states = 0;
  for (const ModelConfig& config : cases(Mutation::kNone)) {
    const ModelResult result = explore(config);
    ASSERT_EQ(result.violation, "") << words_of(result);
    num_states += result.num_states;
  }
  RecordProperty("states", std::to_string(num_states));
  EXPECT_GT(num_states, 10'000) << "the model must not be trivial";
}

class MutationTest : public ::testing::TestWithParam<int> {};

TEST_P(MutationTest, IsCaught) {
  const auto mutation = static_cast<Mutation>(GetParam());
  for (const ModelConfig& config : cases(mutation)) {
    const ModelResult result = explore(config);
    if (result.violation.empty()) continue;
    RecordProperty("violation", result.violation);
    EXPECT_FALSE(result.trace.empty());
    return;
  }
  FAIL() << "breaking the rule " << mutation_name(mutation) << " goes unnoticed";
}

INSTANTIATE_TEST_SUITE_P(ModelChecker, MutationTest,
                         ::testing::Range(1, static_cast<int>(Mutation::kCount)),
                         [](const auto& tested) {
                           return std::string(mutation_name(static_cast<Mutation>(tested.param)));
                         });

TEST(ModelChecker, TellsHowAViolationComesAbout) {
  const ModelResult result =
      explore({.num_ranks = 2, .launches = {kWork, kWork}, .mutation = Mutation::kNoExitWait});
  EXPECT_EQ(result.violation, "data of another launch is pulled");
  ASSERT_FALSE(result.trace.empty());
  EXPECT_NE(result.trace.back().find("pull, peer"), std::string::npos) << words_of(result);
}

TEST(ModelChecker, FindsTheViolationThatEachMutationMeans) {
  const auto violation_of = [](ModelConfig config) { return explore(config).violation; };
  EXPECT_EQ(violation_of({.launches = {kWork, kWork}, .mutation = Mutation::kNoEntryWait}),
            "data of another launch is pulled");
  EXPECT_EQ(violation_of({.launches = {kHead, kHead}, .mutation = Mutation::kOneEntryBank}),
            "an entry of another launch is read");
  EXPECT_EQ(violation_of({.launches = {kHead, kHead}, .mutation = Mutation::kOneCountsBank}),
            "deadlock");
  EXPECT_EQ(violation_of({.launches = {kWork, kWork}, .mutation = Mutation::kClearBeforeEntryWait}),
            "a counter is cleared while a peer may still add to it");
  EXPECT_EQ(violation_of({.launches = {kWork, kRefused, kWork},
                          .mutation = Mutation::kRefusedLaunchKeepsBank}),
            "a counter reached its target before every peer had added");
  EXPECT_EQ(violation_of({.launches = {kWork, kWork}, .mutation = Mutation::kFlagsResetAtLaunch}),
            "deadlock");
  EXPECT_EQ(violation_of({.launches = {kWork, kRecover, kWork},
                          .mutation = Mutation::kRestartWhilePeersRun}),
            "a counter is cleared while a peer may still add to it");
  EXPECT_EQ(violation_of({.launches = {kHead, kRecover, kHead},
                          .mutation = Mutation::kLaunchWhilePeersReset}),
            "deadlock");
  EXPECT_EQ(violation_of({.launches = {kHead, kHead, kHead},
                          .late_rank = 0,
                          .mutation = Mutation::kAbortedRankPosts}),
            "an entry of another launch is read");
  EXPECT_EQ(
      violation_of(
          {.launches = {kHead, kWork}, .late_rank = 0, .mutation = Mutation::kAbortedRankPosts}),
      "data of another launch is pulled");
  EXPECT_EQ(violation_of(
                {.launches = {kWork}, .idle_rank = 1, .mutation = Mutation::kIdleRankSkipsPulled}),
            "deadlock");
}

}  // namespace
}  // namespace megaflux::test
