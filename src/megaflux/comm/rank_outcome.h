// RankOutcome: how a step that all ranks take went on one of them, small enough to be told to the
// others. A step that must happen on all ranks or on none ends with all of them reading the same
// outcomes, and so throwing the same.
//
// Example: rank 2 of 4 cannot share its memory. Each rank throws kBadInput "map_allocation: rank 2:
// memory: 0x10 is no device memory".
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string_view>

#include "megaflux/base/check.h"

namespace megaflux {

struct RankOutcome {
  uint32_t error = 0;   // 0 = done, else 1 + ErrorCode
  char text[252] = {};  // of the error, cut to fit, zero-terminated
};
static_assert(sizeof(RankOutcome) == 256);

RankOutcome failed_outcome(ErrorCode code, std::string_view text);

// Calls step(); what it throws becomes its outcome.
template <typename Step>
RankOutcome outcome_of(Step&& step) {
  try {
    step();
    return {};
  } catch (const Error& error) {
    return failed_outcome(error.code(), error.what());
  } catch (const std::exception& error) {
    return failed_outcome(ErrorCode::kInternal, error.what());
  }
}

// Throws the failure of the lowest rank that failed, naming `step` and the rank. `outcomes` [P].
void throw_first_failure(std::span<const RankOutcome> outcomes, std::string_view step);

}  // namespace megaflux
