#include "megaflux/comm/rank_outcome.h"

namespace megaflux {

RankOutcome failed_outcome(ErrorCode code, std::string_view text) {
  RankOutcome outcome = {.error = 1 + static_cast<uint32_t>(code)};
  text.copy(outcome.text, sizeof(outcome.text) - 1);
  return outcome;
}

void throw_first_failure(std::span<const RankOutcome> outcomes, std::string_view step) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const RankOutcome& outcome = outcomes[rank];
    if (outcome.error == 0) continue;
    throw_error(static_cast<ErrorCode>(outcome.error - 1), step, ": rank ", rank, ": ",
                outcome.text);
  }
}

}  // namespace megaflux
