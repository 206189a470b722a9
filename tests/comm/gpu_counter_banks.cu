// A launch leaves the counters of the next one at 0, whatever it is, however it ends and however
// many CTAs share the work.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "comm/counter_banks_cuda.h"
#include "comm/toy_rig_cuda.h"
#include "megaflux/comm/local_group_cuda.h"

namespace megaflux::test {
namespace {

struct Launch {
  const char* name;
  ToyFault fault = ToyFault::kNone;
  bool is_head = false;
};

void expect_counters_cleared(const std::vector<int32_t>& device_of, int32_t ctas_per_rank) {
  constexpr uint32_t kStart = 0xfffffffdu;  // the wrap lies inside
  Layout layout;
  const ToyFields fields = add_toy_fields(layout, static_cast<int32_t>(device_of.size()));
  const CounterBanks banks(layout);
  LocalConfig config = {
      .device_of = device_of, .payload_words = kToyPayload, .start_epoch = kStart};
  config.waits.deadline = std::chrono::milliseconds(gpu::by_size(2'000, 60'000, 5'000));
  LocalGroup group(config, layout);
  ToyRig rig(group, fields, ctas_per_rank);
  uint32_t epoch = kStart;
  for (const Launch& launch : {Launch{"work"}, Launch{"refused", ToyFault::kRefuses},
                               Launch{"head", ToyFault::kNone, true}, Launch{"work"},
                               Launch{"disagreed", ToyFault::kOtherPlan}, Launch{"work"}}) {
    SCOPED_TRACE(launch.name + std::string(", epoch ") + std::to_string(++epoch));
    banks.poison(group);
    rig.launch({.fault = launch.fault, .faulty_rank = 0, .is_head = launch.is_head});
    const auto synchronize = [&] { group.synchronize(); };
    // A rank alone has nobody to disagree with.
    const bool is_refused = launch.fault == ToyFault::kRefuses ||
                            (launch.fault == ToyFault::kOtherPlan && device_of.size() > 1);
    if (is_refused) {
      EXPECT_THROW(synchronize(), AgreedError);
    } else {
      synchronize();
    }
    banks.expect_cleared_by(group, epoch);
  }
}

TEST(CounterBanks, AreClearedByOneCta) {
  MF_NEEDS_GPUS(1);
  expect_counters_cleared({0, 0, 0}, 1);
}

TEST(CounterBanks, AreClearedByManyCtas) {
  MF_NEEDS_GPUS(1);
  expect_counters_cleared({0}, 132);
  expect_counters_cleared({0, 0, 0}, 2);
  expect_counters_cleared({0, 0, 0, 0}, 33);
}

TEST(CounterBanks, AreClearedOnTwoDevices) {
  MF_NEEDS_GPUS(2);
  expect_counters_cleared({0, 1, 1}, 17);
}

}  // namespace
}  // namespace megaflux::test
