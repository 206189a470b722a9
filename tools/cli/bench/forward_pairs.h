// Pairs of times: a run of `bench forward` in turns with the first run, so that what happens to the
// clocks of a device happens to both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace megaflux::cli {

// Milliseconds a launch of run i: `launches` back to back, behind `untimed` ones.
using TimeLaunches = std::function<double(size_t i, int32_t launches, int32_t untimed)>;

// Launches, all but num_turns.
struct PairPace {
  int32_t warm_up = 0;    // of the first run, ahead of everything
  int32_t lead = 0;       // of the first run, ahead of a pair
  int32_t turn = 0;       // of either run
  int32_t untimed = 0;    // ahead of a turn: a short launch is slower behind another run's
  int32_t num_turns = 0;  // of the run in a pair; the first run has one more
};

// A launch of either run together, in ms: from here on turns fall into step with the swing of the
// device's power, and a ratio is right to some per cent alone.
constexpr double kLongestTurnsMs = 300;

// `ms` of a launch of the first run.
PairPace pair_pace(double ms);

// [samples] milliseconds a launch.
struct PairTimes {
  std::vector<double> run, first;
};

// `samples` pairs of run i: first, run, first, ..., run, first; the outer turns of the first run
// weigh half. Throws what `time` throws.
PairTimes time_pairs(const TimeLaunches& time, size_t i, int32_t samples, const PairPace& pace);

}  // namespace megaflux::cli
