#include "megaflux/comm/device_status.h"

#include <atomic>

#include "megaflux/base/check.h"
#include "megaflux/comm/signal.h"

namespace megaflux {
namespace {

// The status of a rank that has failed, or null. Its copy of the record is whole.
DeviceStatus* first_failed(std::span<DeviceStatus> statuses) {
  for (DeviceStatus& status : statuses) {
    if (load_signal(&status.failed) != 0) return &status;
  }
  return nullptr;
}

// Its rank may tell the next verdict.
void take_back(DeviceStatus& status) {
  std::atomic_ref<uint32_t>(status.disagreed).store(0, std::memory_order_release);
}

}  // namespace

bool is_poisoned(std::span<DeviceStatus> statuses) {
  return first_failed(statuses) != nullptr;
}

std::string failure_text(std::span<DeviceStatus> statuses) {
  const DeviceStatus* const failed = first_failed(statuses);
  return failed == nullptr ? std::string() : describe(failed->failure);
}

void refuse_poisoned(std::span<DeviceStatus> statuses) {
  if (!is_poisoned(statuses)) return;
  throw_error(ErrorCode::kTimeout, "the group is poisoned until recover(), because ",
              failure_text(statuses));
}

void check_statuses(std::span<DeviceStatus> statuses, std::optional<uint32_t>& told) {
  refuse_poisoned(statuses);
  const DeviceStatus* first = nullptr;
  for (DeviceStatus& status : statuses) {
    if (load_signal(&status.disagreed) == 0) continue;
    // A rank that tells late. Of a launch before that one nothing comes any more: every rank tells
    // of a launch before any of them enters the next.
    if (told == status.epoch) {
      take_back(status);
      continue;
    }
    // Every rank tells the same; which launch was first is a signed difference.
    if (first == nullptr || is_reached(first->epoch, status.epoch)) first = &status;
  }
  if (first == nullptr) return;
  told = first->epoch;
  const AgreedError error = agreed_error(first->verdict, first->epoch, "");
  for (DeviceStatus& status : statuses) take_back(status);
  throw error;
}

void reset_statuses(std::span<DeviceStatus> statuses) {
  for (DeviceStatus& status : statuses) status = {};
}

}  // namespace megaflux
