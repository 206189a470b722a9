// SymmetricHeap: the same Layout allocated once a rank, and the table of P base pointers through
// which every rank reaches every other. Words that several threads touch are accessed through
// signal.h and wait.h alone; all other bytes are plain memory whose ownership passes with those
// signals (docs/memory_order.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "megaflux/base/math.h"
#include "megaflux/comm/layout.h"

namespace megaflux {

// First element of `field` in the heap that begins at `base`.
template <typename T>
MF_HOST_DEVICE T* at_base(std::byte* base, Field<T> field) {
  return reinterpret_cast<T*>(base + field.offset);
}
// First counter of the bank that launch `epoch` uses.
MF_HOST_DEVICE inline uint32_t* at_base(std::byte* base, CounterField field, uint32_t epoch) {
  return reinterpret_cast<uint32_t*>(base + field.offset) + (epoch & 1u) * field.bank_words;
}

// Non-owning: what a rank or a kernel sees of the heap. The table lies where its reader is: in host
// memory for threads, in device memory for kernels.
class HeapView {
 public:
  HeapView() = default;
  MF_HOST_DEVICE HeapView(std::byte* const* bases, int32_t num_ranks)
      : bases_(bases), num_ranks_(num_ranks) {}

  MF_HOST_DEVICE int32_t num_ranks() const { return num_ranks_; }

  MF_HOST_DEVICE std::byte* base(int32_t rank) const { return bases_[rank]; }
  // First element of `field` in the heap of `rank`.
  template <typename T>
  MF_HOST_DEVICE T* at(int32_t rank, Field<T> field) const {
    return at_base(base(rank), field);
  }
  template <typename T>
  std::span<T> span_of(int32_t rank, Field<T> field) const {
    return {at(rank, field), field.count};
  }
  // First counter of the bank that launch `epoch` uses.
  MF_HOST_DEVICE uint32_t* at(int32_t rank, CounterField field, uint32_t epoch) const {
    return at_base(base(rank), field, epoch);
  }

 private:
  std::byte* const* bases_ = nullptr;  // [P]
  int32_t num_ranks_ = 0;
};

// Owns the memory of all P ranks of one process; zeroed at creation.
class SymmetricHeap {
 public:
  // Throws kBadInput unless num_ranks is in [1, 1024].
  SymmetricHeap(Layout layout, int32_t num_ranks);

  const Layout& layout() const { return layout_; }
  HeapView view() const { return {bases_.data(), static_cast<int32_t>(bases_.size())}; }
  // Sets every epoch word of every rank to `epoch` and every counter to 0. No rank may be running.
  void reset_signals(uint32_t epoch);

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  Layout layout_;
  std::vector<std::unique_ptr<std::byte[], Release>> memory_;
  std::vector<std::byte*> bases_;
};

}  // namespace megaflux
