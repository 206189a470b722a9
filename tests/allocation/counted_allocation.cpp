#include "allocation/counted_allocation.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
std::atomic<int64_t> total{0};
thread_local int64_t num_left = kUnlimited;

void* counted(std::size_t bytes) {
  // Relaxed: a count alone; the tests read it where the threads they count have been joined or
  // stand still.
  total.fetch_add(1, std::memory_order_relaxed);
  if (num_left != kUnlimited && num_left-- <= 0) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Every form that a program uses ends in these pairs; over-aligned memory is not counted.
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace megaflux::test {

int64_t num_allocations() {
  return total.load(std::memory_order_relaxed);
}

FailingAllocations::FailingAllocations(int64_t count) {
  num_left = count;
}

FailingAllocations::~FailingAllocations() {
  num_left = kUnlimited;
}

}  // namespace megaflux::test
