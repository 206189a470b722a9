// No allocation per step: counts every operator new of the program while launches run.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "comm/toy_launch.h"
#include "megaflux/comm/threads_group.h"

namespace {
std::atomic<int64_t> num_allocations{0};

void* counted(std::size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

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

namespace megaflux {
namespace {

TEST(Allocation, NonePerLaunch) {
  for (const int32_t num_roles : {1, 2}) {
    Layout layout;
    const test::ToyFields fields = test::add_toy_fields(layout, 4);
    ThreadsGroup group({.num_ranks = 4, .num_roles = num_roles}, layout);
    const auto launch = [&](RankContext& ctx) { test::toy_launch(ctx, fields); };
    group.run(launch);
    const int64_t before = num_allocations;
    for (int i = 0; i < 50; ++i) group.run(launch);
    EXPECT_EQ(num_allocations - before, 0);
  }
}

}  // namespace
}  // namespace megaflux
