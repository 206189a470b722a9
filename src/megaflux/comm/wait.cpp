#include "megaflux/comm/wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

using Clock = std::chrono::steady_clock;

FailureRecord timeout_record(const RankContext& ctx, const Awaited& awaited, uint32_t seen) {
  return {.kind = FailureKind::kTimeout,
          .rank = ctx.rank,
          .role = static_cast<int32_t>(ctx.role),
          .epoch = ctx.epoch,
          .tag = awaited.tag,
          .peer = awaited.peer,
          .index = awaited.index,
          .expected = awaited.expected,
          .seen = seen};
}

[[noreturn]] void throw_first_failure(const RankContext& ctx, const Awaited& awaited) {
  const FailureRecord& first = first_failure(ctx);
  if (first.rank == ctx.rank && first.role == static_cast<int32_t>(ctx.role)) {
    throw Error(ErrorCode::kTimeout, describe(first));
  }
  throw_error(ErrorCode::kTimeout, "rank ", ctx.rank, " stopped while waiting for ",
              wait_tag_name(awaited.tag), " in epoch ", ctx.epoch, ", because ", describe(first));
}

// Gives the core away a little longer each time.
class Backoff {
 public:
  explicit Backoff(const WaitConfig& config) : config_(config) {}

  // True if this step left the processor, so that the clock is worth a look.
  bool step() {
    if (spins_ < config_.spins) {
      ++spins_;
      return false;
    }
    if (yields_ < config_.yields) {
      ++yields_;
      std::this_thread::yield();
      return true;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, config_.max_sleep);
    return true;
  }

 private:
  const WaitConfig& config_;
  int32_t spins_ = 0;
  int32_t yields_ = 0;
  std::chrono::microseconds sleep_{10};
};

}  // namespace

void check_waits(const WaitConfig& waits) {
  MF_CHECK(waits.deadline.count() > 0, "waits.deadline: ", waits.deadline.count(),
           " ms is not positive");
  MF_CHECK(waits.deadline_scale > 0, "waits.deadline_scale: ", waits.deadline_scale,
           " is not positive");
}

uint32_t wait_for(const RankContext& ctx, const Awaited& awaited) {
  uint32_t seen = load_signal(awaited.word);
  if (!is_reached(seen, awaited.expected)) {
    const std::chrono::duration<double> allowed =
        ctx.waits.deadline * ctx.waits.deadline_scale / (awaited.is_impatient ? 2 : 1);
    const Clock::time_point begin = Clock::now();
    Backoff backoff(ctx.waits);
    for (;;) {
      const bool is_late = backoff.step() && Clock::now() - begin > allowed;
      // Read after the clock: a thread that was not scheduled for long still sees a signal that
      // came in time.
      seen = load_signal(awaited.word);
      if (is_reached(seen, awaited.expected)) break;
      if (is_late) raise_abort(ctx, timeout_record(ctx, awaited, seen));
      if (is_late || is_aborted(ctx)) throw_first_failure(ctx, awaited);
    }
  }
  fuzz_delay(ctx);
  return seen;
}

}  // namespace megaflux
