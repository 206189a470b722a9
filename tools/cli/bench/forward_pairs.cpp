#include "cli/bench/forward_pairs.h"

#include <algorithm>
#include <cmath>

namespace megaflux::cli {
namespace {

// At its limit of power a device swings by up to a tenth, and once in this time. A pair takes as
// long and samples all of the swing (docs/decisions/0016-pairs-over-a-swing.md).
constexpr double kSwingMs = 750;
constexpr double kTurnMs = 10;
// Behind one untimed launch the host is ahead of the device. A launch of this length needs none:
// what it waits for the host is less than a part in 300.
constexpr double kLongMs = 40;
// What ran before decides the clocks: a device that has drawn little, since most of its SMs waited
// for a straggler, runs up to a tenth faster for most of a second. With a device a rank the
// straggler's own draws what it can all the time. So pairs begin behind as much of the first
// run, and both of a pair share what clocks there are.
constexpr double kLeadMs = 250;
// And what regulates power takes seconds to settle: the fifth quarter of a second found a layer of
// 0.6 ms up to a fifth slower than any later one.
constexpr double kWarmUpMs = 2500;

}  // namespace

PairPace pair_pace(double ms) {
  const auto launches = [ms](double span, double least, double most) {
    return static_cast<int32_t>(std::clamp(std::ceil(span / ms), least, most));
  };
  PairPace pace{.warm_up = launches(kWarmUpMs, 2, 10'000),
                .lead = launches(kLeadMs, 2, 10'000),
                .turn = launches(kTurnMs, 1, 10'000),
                .untimed = ms < kLongMs ? 1 : 0,
                .num_turns = 0};
  const double turn_ms = ms * (pace.turn + pace.untimed);
  pace.num_turns = static_cast<int32_t>(std::max(1.0, std::round(kSwingMs / 2 / turn_ms)));
  return pace;
}

PairTimes time_pairs(const TimeLaunches& time, size_t i, int32_t samples, const PairPace& pace) {
  PairTimes times;
  for (int32_t n = 0; n < samples; ++n) {
    time(0, pace.lead, 0);
    double first = 0, run = 0;
    double before = time(0, pace.turn, pace.untimed);
    for (int32_t turn = 0; turn < pace.num_turns; ++turn) {
      run += time(i, pace.turn, pace.untimed);
      const double behind = time(0, pace.turn, pace.untimed);
      first += (before + behind) / 2;
      before = behind;
    }
    times.run.push_back(run / pace.num_turns);
    times.first.push_back(first / pace.num_turns);
  }
  return times;
}

}  // namespace megaflux::cli
