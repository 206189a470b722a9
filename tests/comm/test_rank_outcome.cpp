#include "megaflux/comm/rank_outcome.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace megaflux {
namespace {

TEST(RankOutcome, NothingIsThrownIfNoRankFailed) {
  const std::vector<RankOutcome> outcomes(3, outcome_of([] {}));
  EXPECT_NO_THROW(throw_first_failure(outcomes, "map_allocation"));
}

TEST(RankOutcome, AllRanksThrowTheFailureOfTheLowest) {
  std::vector<RankOutcome> outcomes(4);
  outcomes[2] = outcome_of([] { throw Error(ErrorCode::kUnsupported, "no descriptor"); });
  outcomes[3] = outcome_of([] { throw std::runtime_error("later"); });
  for (int rank = 0; rank < 4; ++rank) {
    try {
      throw_first_failure(outcomes, "map_allocation");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_STREQ(error.what(), "map_allocation: rank 2: no descriptor");
    }
  }
  outcomes[2] = {};
  try {
    throw_first_failure(outcomes, "creation");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_STREQ(error.what(), "creation: rank 3: later");
  }
}

TEST(RankOutcome, ALongTextIsCut) {
  const RankOutcome outcome = failed_outcome(ErrorCode::kBadInput, std::string(1000, 'x'));
  EXPECT_EQ(std::string(outcome.text), std::string(sizeof(outcome.text) - 1, 'x'));
}

}  // namespace
}  // namespace megaflux
