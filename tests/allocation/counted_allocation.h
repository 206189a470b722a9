// Counts what a test program allocates: linking this replaces its operator new and operator delete.
#pragma once

#include <cstdint>

namespace megaflux::test {

// Calls of operator new so far, of all threads.
int64_t num_allocations();

// While it lives, the calling thread's allocations after the next `count` throw std::bad_alloc.
class FailingAllocations {
 public:
  explicit FailingAllocations(int64_t count);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
};

}  // namespace megaflux::test
