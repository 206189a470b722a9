#include "megaflux/comm/device_context.h"

namespace megaflux {

LaunchFields add_launch_fields(Layout& layout) {
  return {.ctas_done = layout.add_counters("launch.ctas_done", 1),
          .outcome = layout.add<uint32_t>("launch.outcome", 1)};
}

}  // namespace megaflux
