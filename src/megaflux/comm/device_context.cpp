#include "megaflux/comm/device_context.h"

#include "megaflux/base/check.h"

namespace megaflux {

const DeviceGroupConfig& checked(const DeviceGroupConfig& config) {
  MF_CHECK(config.num_ranks >= 1 && config.num_ranks <= kMaxDeviceRanks,
           "num_ranks: ", config.num_ranks, " is outside [1, ", kMaxDeviceRanks,
           "], the ranks of a group of devices");
  MF_CHECK(config.payload_words >= 0, "payload_words: ", config.payload_words, " is negative");
  check_waits(config.waits);
  return config;
}

LaunchFields add_launch_fields(Layout& layout, int32_t num_ranks) {
  return {.flags = layout.add<EntryFlag>("launch.flags", 2 * static_cast<size_t>(num_ranks)),
          .ctas_done = layout.add_counters("launch.ctas_done", 1),
          .outcome = layout.add<uint32_t>("launch.outcome", 1)};
}

}  // namespace megaflux
