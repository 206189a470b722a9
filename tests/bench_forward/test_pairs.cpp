// Pairs of `bench forward`, on devices that are made up: do ratios stand still where clocks do not?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <vector>

#include "cli/bench/forward_pairs.h"
#include "simulate/distribution.h"

namespace megaflux::cli {
namespace {

// Clocks swing by eight per cent, as those of an H200 at its limit of power; and a run that leaves
// SMs idle lets them rise by a tenth, within some 300 ms.
struct DeviceKind {
  double first_ms, run_ms;  // a launch at middle clocks
  bool is_idle = false;     // the other run than the first one
  double period = 750;      // ms
  double phase = 0;         // of the period
};

class Device {
 public:
  explicit Device(const DeviceKind& kind) : kind_(kind), now_(kind.phase * kind.period) {}

  struct Turn {
    size_t i;
    int32_t launches, untimed;
  };
  const std::vector<Turn>& turns() const { return turns_; }

  double time(size_t i, int32_t launches, int32_t untimed) {
    turns_.push_back({i, launches, untimed});
    for (int32_t n = 0; n < untimed; ++n) launch(i);
    const double begin = now_;
    for (int32_t n = 0; n < launches; ++n) launch(i);
    return (now_ - begin) / launches;
  }

 private:
  // In parts, since a long launch sees much of a swing.
  void launch(size_t i) {
    const double ms = i == 0 ? kind_.first_ms : kind_.run_ms;
    const auto parts = static_cast<int32_t>(std::ceil(ms / 10));
    for (int32_t n = 0; n < parts; ++n) {
      const double swing = 0.08 * std::sin(2 * std::numbers::pi * now_ / kind_.period);
      const double spent = ms / parts * (1 + swing) * (1 - rise_);
      const double aim = i == 1 && kind_.is_idle ? 0.1 : 0;
      now_ += spent;
      rise_ += (aim - rise_) * (1 - std::exp(-spent / 300));
    }
  }

  DeviceKind kind_;
  double now_;
  double rise_ = 0;
  std::vector<Turn> turns_;
};

PairTimes pairs_of(Device& device, double first_ms, size_t i = 1, int32_t samples = 5) {
  return time_pairs([&](size_t run, int32_t launches,
                        int32_t untimed) { return device.time(run, launches, untimed); },
                    i, samples, pair_pace(first_ms));
}

double median_ratio(const PairTimes& times) {
  std::vector<double> ratios;
  for (size_t n = 0; n < times.run.size(); ++n) ratios.push_back(times.run[n] / times.first[n]);
  return simulate::percentile(ratios, 50);
}

constexpr double kLayers[] = {0.03, 0.1, 0.55, 1.6, 5.4, 9.9, 11, 19.9, 31, 43, 62, 75, 94, 120};
constexpr double kPeriods[] = {680, 750, 820};
constexpr double kPhases[] = {0, 0.2, 0.4, 0.6, 0.8};

TEST(ForwardPairs, EqualRunsAreEqualOnADeviceThatSwings) {
  for (const double ms : kLayers) {
    for (const double period : kPeriods) {
      for (const double phase : kPhases) {
        Device device({.first_ms = ms, .run_ms = ms, .period = period, .phase = phase});
        EXPECT_NEAR(median_ratio(pairs_of(device, ms)), 1, 0.005)
            << ms << " ms, period " << period << ", phase " << phase;
      }
    }
  }
}

TEST(ForwardPairs, ARatioIsRightOnADeviceThatSwings) {
  for (const double ms : kLayers) {
    for (const double ratio : {0.9, 1.02, 1.3, 2.0}) {
      Device device({.first_ms = ms, .run_ms = ratio * ms});
      EXPECT_NEAR(median_ratio(pairs_of(device, ms)) / ratio, 1, 0.012) << ms << " ms, " << ratio;
    }
  }
}

TEST(ForwardPairs, ARunThatLeavesSmsIdleIsNotTheFasterForIt) {
  for (const double ms : kLayers) {
    Device device({.first_ms = ms, .run_ms = 1.5 * ms, .is_idle = true});
    EXPECT_NEAR(median_ratio(pairs_of(device, ms)) / 1.5, 1, 0.015) << ms << " ms";
  }
}

TEST(ForwardPairs, TimesAreThoseOfAWholeSwing) {
  for (const double ms : kLayers) {
    for (const double period : kPeriods) {
      for (const double phase : kPhases) {
        Device device({.first_ms = ms, .run_ms = ms, .period = period, .phase = phase});
        EXPECT_NEAR(simulate::percentile(pairs_of(device, ms).run, 50) / ms, 1, 0.02)
            << ms << " ms, period " << period << ", phase " << phase;
      }
    }
  }
}

TEST(ForwardPairs, APairOfEqualRunsTakesASwing) {
  for (const double ms : kLayers) {
    const PairPace pace = pair_pace(ms);
    const double taken = (2 * pace.num_turns + 1) * (pace.turn + pace.untimed) * ms;
    EXPECT_GT(taken, 700) << ms << " ms";
    EXPECT_LT(taken, 900) << ms << " ms";
  }
}

TEST(ForwardPairs, EveryPairHasALeadAndOneTurnMoreOfTheFirstRun) {
  for (const double ms : kLayers) {
    Device device({.first_ms = ms, .run_ms = 2 * ms});
    const PairPace pace = pair_pace(ms);
    EXPECT_EQ(pairs_of(device, ms, 1, 3).first.size(), 3);
    const size_t turns_of_pair = 2 + 2 * static_cast<size_t>(pace.num_turns);
    ASSERT_EQ(device.turns().size(), 3 * turns_of_pair) << ms << " ms";
    for (size_t n = 0; n < device.turns().size(); ++n) {
      const size_t at = n % turns_of_pair;
      const auto& [i, launches, untimed] = device.turns()[n];
      EXPECT_EQ(i, at > 0 && at % 2 == 0 ? 1 : 0) << ms << " ms, turn " << n;
      EXPECT_EQ(launches, at == 0 ? pace.lead : pace.turn) << ms << " ms, turn " << n;
      EXPECT_EQ(untimed, at == 0 ? 0 : pace.untimed) << ms << " ms, turn " << n;
    }
  }
}

TEST(ForwardPairs, TheFirstRunTakesTurnsWithItself) {
  Device device({.first_ms = 5, .run_ms = 7});
  EXPECT_NEAR(median_ratio(pairs_of(device, 5, 0)), 1, 0.005);
  EXPECT_TRUE(std::ranges::all_of(device.turns(), [](const auto& turn) { return turn.i == 0; }));
}

TEST(ForwardPairs, LongLaunchesAreFew) {
  const PairPace short_one = pair_pace(1), long_one = pair_pace(43), longest = pair_pace(5000);
  EXPECT_EQ(std::tuple(short_one.turn, short_one.untimed, short_one.num_turns),
            std::tuple(10, 1, 34));
  EXPECT_EQ(std::tuple(short_one.warm_up, short_one.lead), std::tuple(2500, 250));
  EXPECT_EQ(std::tuple(long_one.turn, long_one.untimed, long_one.num_turns), std::tuple(1, 0, 9));
  EXPECT_EQ(pair_pace(30).untimed, 1);
  EXPECT_EQ(std::tuple(longest.turn, longest.untimed, longest.num_turns), std::tuple(1, 0, 1));
  EXPECT_EQ(std::tuple(longest.warm_up, longest.lead), std::tuple(2, 2));
}

}  // namespace
}  // namespace megaflux::cli
