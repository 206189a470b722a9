// What the ranks of a device have told the host about their launches, as errors. Host code alone:
// the statuses lie in pinned memory, and their writer is a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "megaflux/comm/device_context.h"

namespace megaflux {

// True once one of the ranks has failed.
bool is_poisoned(std::span<DeviceStatus> statuses);
// The first failure of the group, as describe() words it; empty if none has failed.
std::string failure_text(std::span<DeviceStatus> statuses);
// Throws kTimeout with the failure if one of the ranks has failed.
void refuse_poisoned(std::span<DeviceStatus> statuses);
// refuse_poisoned. Then, if launches since the last call ended with a verdict, takes it back and
// throws the AgreedError of the first of them; the group is usable. `told` is the epoch told last,
// kept by the caller: ranks tell of one launch at different moments, and it is told once.
void check_statuses(std::span<DeviceStatus> statuses, std::optional<uint32_t>& told);
// All as at creation. No launch may be running.
void reset_statuses(std::span<DeviceStatus> statuses);

}  // namespace megaflux
