// Items of work shared out over threads. Which thread takes which item is open: an item writes
// only what belongs to it.
#pragma once

#include <cstdint>
#include <functional>

namespace megaflux::simulate {

// Calls `work(worker, item)` for every item of [0, num_items), each worker of [0, num_threads) on a
// thread of its own. The first exception, by item, is thrown again after all threads have stopped;
// items not begun by then are left out.
void run_items(int32_t num_threads, int64_t num_items,
               const std::function<void(int32_t worker, int64_t item)>& work);

}  // namespace megaflux::simulate
