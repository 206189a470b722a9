// Bad input: the call throws kBadInput, and the message holds every word that a user needs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megaflux/base/check.h"

namespace megaflux {

template <typename Call>
void expect_bad_input(Call&& call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is missing in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown; expected an error with: "
                << ::testing::PrintToString(words);
}

}  // namespace megaflux
