// GroupTimer: time on the devices of a group between two places in its streams.
//
//   GroupTimer timer(group);
//   timer.begin();
//   group.launch(...);
//   timer.end();
//   group.synchronize();
//   const double ms = timer.slowest_ms();
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "megaflux/base/check_cuda.h"
#include "megaflux/comm/device_group_cuda.h"

namespace megaflux {

class GroupTimer {
 public:
  // The group outlives the timer.
  explicit GroupTimer(const DeviceGroup& group) : group_(group) {
    for (size_t i = 0; i < group.num_devices(); ++i) {
      const CurrentDevice current(group.device(i));
      begin_.push_back(make_event());
      end_.push_back(make_event());
    }
  }

  void begin() const { record(begin_); }
  void end() const { record(end_); }
  // Of the last begin and end, which the streams have passed; the slowest device counts.
  double slowest_ms() const {
    float slowest = 0;
    for (size_t i = 0; i < begin_.size(); ++i) {
      float ms = 0;
      MF_CUDA(cudaEventElapsedTime(&ms, begin_[i].get(), end_[i].get()));
      slowest = std::max(slowest, ms);
    }
    return static_cast<double>(slowest);
  }

 private:
  struct DestroyEvent {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

  static Event make_event() {
    cudaEvent_t event = nullptr;
    MF_CUDA(cudaEventCreate(&event));
    return Event(event);
  }
  void record(const std::vector<Event>& events) const {
    for (size_t i = 0; i < events.size(); ++i) {
      const CurrentDevice current(group_.device(i));
      MF_CUDA(cudaEventRecord(events[i].get(), group_.stream(i)));
    }
  }

  const DeviceGroup& group_;
  std::vector<Event> begin_;  // [devices]
  std::vector<Event> end_;    // [devices]
};

}  // namespace megaflux
