#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "megaflux/base/math.h"

namespace megaflux {
namespace {

TEST(Math, CeilDivAtItsEdges) {
  EXPECT_EQ(ceil_div(0, 128), 0);
  EXPECT_EQ(ceil_div(1, 128), 1);
  EXPECT_EQ(ceil_div(128, 128), 1);
  EXPECT_EQ(ceil_div(129, 128), 2);
  // No a + b - 1 that could pass the largest value.
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(ceil_div(kMax, 2), 1 << 30);
  EXPECT_EQ(ceil_div(kMax, kMax), 1);
}

RC_GTEST_PROP(Math, CeilDivIsTheLeastEnough, ()) {
  const auto a = *rc::gen::inRange<int64_t>(0, int64_t{1} << 40);
  const auto b = *rc::gen::inRange<int64_t>(1, int64_t{1} << 20);
  const int64_t quotient = ceil_div(a, b);
  RC_ASSERT(quotient * b >= a);
  RC_ASSERT((quotient - 1) * b < a);
}

RC_GTEST_PROP(Math, RoundUpIsTheLeastMultiple, ()) {
  const auto a = *rc::gen::inRange<uint32_t>(0, 1u << 24);
  const auto unit = *rc::gen::inRange<uint32_t>(1, 1u << 12);
  const uint32_t rounded = round_up(a, unit);
  RC_ASSERT(rounded % unit == 0u);
  RC_ASSERT(rounded >= a);
  RC_ASSERT(rounded - a < unit);
}

}  // namespace
}  // namespace megaflux
