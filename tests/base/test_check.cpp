#include <gtest/gtest.h>

#include <string>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

TEST(Check, NamesArgumentValueAndLimit) {
  const int ranks = 1025;
  try {
    MF_CHECK(ranks >= 1 && ranks <= 1024, "--ranks: ", ranks, " is outside [1, 1024]");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--ranks: 1025 is outside [1, 1024]");
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
  }
}

TEST(Check, EvaluatesItsConditionOnceAndItsWordsOnlyOnFailure) {
  int conditions = 0;
  int words = 0;
  const auto word = [&] { return ++words; };
  MF_CHECK(++conditions == 1, word());
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(words, 0);
  EXPECT_THROW(MF_CHECK(++conditions == 1, word()), Error);
  EXPECT_EQ(conditions, 2);
  EXPECT_EQ(words, 1);
}

TEST(Check, IsOneStatement) {
  // Would not compile, or would take the wrong branch, if the macro were an if without its else.
  const bool condition = false;
  if (condition)
    MF_CHECK(false, "not reached");
  else
    SUCCEED();
}

TEST(Check, InvariantNamesThePlace) {
  try {
    MF_INVARIANT(1 + 1 == 3, "sum is ", 1 + 1);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    const std::string message = error.what();
    EXPECT_NE(message.find("test_check.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("sum is 2"), std::string::npos) << message;
  }
}

TEST(Check, ErrorsAreStandardExceptions) {
  try {
    throw_error(ErrorCode::kTimeout, "rank ", 3, " waited ", 1.5, " s");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "rank 3 waited 1.5 s");
    return;
  }
  FAIL() << "not caught as std::exception";
}

}  // namespace
}  // namespace megaflux
