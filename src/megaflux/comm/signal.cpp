#include "megaflux/comm/signal.h"

#include <chrono>
#include <thread>

namespace megaflux {

void DelayFuzz::delay() {
  const uint32_t choice = rng_.below(8);
  if (choice < 5) return;
  if (choice < 7) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(rng_.below(100)));
  }
}

}  // namespace megaflux
