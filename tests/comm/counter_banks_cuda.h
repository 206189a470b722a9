// CounterBanks: counter fields that no kernel counts in. Filled with rubbish before a launch, they
// show what the launch has cleared: all of the bank that the next one uses, nothing of its own.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "megaflux/base/math.h"
#include "megaflux/comm/local_group_cuda.h"

namespace megaflux::test {

class CounterBanks {
 public:
  // Less than a vector, not whole vectors, and more vectors than most launches have threads.
  explicit CounterBanks(Layout& layout) {
    for (const size_t count : {1, 7, 128, 100'003}) {
      fields_.push_back(layout.add_counters("test.counters_" + std::to_string(count), count));
    }
  }

  // No launch may be running.
  void poison(const LocalGroup& group) const {
    each(group, [](uint32_t* words, const CounterField& field) {
      MF_CUDA(cudaMemset(words, 0xcd, 2 * field.bank_words * sizeof(uint32_t)));
    });
    wait(group);
  }
  // After poison() and one launch, that of `epoch`.
  void expect_cleared_by(const LocalGroup& group, uint32_t epoch) const {
    each(group, [&](uint32_t* banks, const CounterField& field) {
      std::vector<uint32_t> words(2 * field.bank_words);
      MF_CUDA(cudaMemcpy(words.data(), banks, words.size() * sizeof(uint32_t), cudaMemcpyDefault));
      const auto next =
          words.begin() + static_cast<ptrdiff_t>(((epoch + 1) & 1) * field.bank_words);
      const auto own = words.begin() + static_cast<ptrdiff_t>((epoch & 1) * field.bank_words);
      const auto count = static_cast<ptrdiff_t>(field.count);
      const auto bank = static_cast<ptrdiff_t>(field.bank_words);
      const ptrdiff_t written = round_up<ptrdiff_t>(count, 4);  // whole vectors
      EXPECT_EQ(std::count(next, next + count, 0u), count) << "not cleared, of " << count;
      EXPECT_EQ(std::count(next + written, next + bank, kRubbish), bank - written);
      EXPECT_EQ(std::count(own, own + bank, kRubbish), bank) << "the launch's own, of " << count;
    });
  }

 private:
  static constexpr uint32_t kRubbish = 0xcdcdcdcd;

  // fn(both banks of a field on a rank, the field).
  template <typename Fn>
  void each(const LocalGroup& group, Fn&& fn) const {
    for (int32_t rank = 0; rank < group.num_ranks(); ++rank) {
      for (const CounterField& field : fields_) {
        SCOPED_TRACE("rank " + std::to_string(rank));
        fn(group.heap().at(rank, field, 0), field);
      }
    }
  }
  static void wait(const LocalGroup& group) {
    for (size_t i = 0; i < group.num_devices(); ++i) {
      const CurrentDevice current(group.device(i));
      MF_CUDA(cudaDeviceSynchronize());
    }
  }

  std::vector<CounterField> fields_;
};

}  // namespace megaflux::test
