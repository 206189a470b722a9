#include "simulate/parallel_items.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace megaflux::simulate {
namespace {

class ItemQueue {
 public:
  ItemQueue(int64_t num_items, const std::function<void(int32_t, int64_t)>& work)
      : num_items_(num_items), work_(work) {}

  // Items are taken in order, so that the first item to fail is never left out.
  void serve(int32_t worker) {
    while (!has_failed_) {
      const int64_t item = next_++;
      if (item >= num_items_) return;
      try {
        work_(worker, item);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (item < failed_item_) {
          failed_item_ = item;
          error_ = std::current_exception();
        }
        has_failed_ = true;
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int64_t num_items_;
  const std::function<void(int32_t, int64_t)>& work_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;
  int64_t failed_item_ = std::numeric_limits<int64_t>::max();
  std::exception_ptr error_;
};

}  // namespace

void run_items(int32_t num_threads, int64_t num_items,
               const std::function<void(int32_t worker, int64_t item)>& work) {
  ItemQueue queue(num_items, work);
  {
    std::vector<std::jthread> threads;
    const auto wanted = static_cast<int32_t>(std::min<int64_t>(num_threads, num_items));
    for (int32_t worker = 1; worker < wanted; ++worker) {
      threads.emplace_back([&queue, worker] { queue.serve(worker); });
    }
    queue.serve(0);
  }
  queue.rethrow();
}

}  // namespace megaflux::simulate
