#include "megaflux/comm/symmetric_heap.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux {
namespace {
constexpr std::align_val_t kHeapAlignment{4096};
}  // namespace

void SymmetricHeap::Release::operator()(std::byte* memory) const {
  ::operator delete[](memory, kHeapAlignment);
}

SymmetricHeap::SymmetricHeap(Layout layout, int32_t num_ranks) : layout_(std::move(layout)) {
  MF_CHECK(num_ranks >= 1 && num_ranks <= kMaxRanks, "num_ranks: ", num_ranks, " is outside [1, ",
           kMaxRanks, "]");
  const size_t bytes = std::max(layout_.total_bytes(), kFieldAlignment);
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    memory_.emplace_back(static_cast<std::byte*>(::operator new[](bytes, kHeapAlignment)));
    bases_.push_back(memory_.back().get());
    std::memset(bases_.back(), 0, bytes);
  }
}

void SymmetricHeap::reset_signals(uint32_t epoch) {
  for (std::byte* base : bases_) {
    for (const FieldInfo& field : layout_.fields()) {
      if (field.kind == FieldKind::kData) continue;
      const uint32_t value = field.kind == FieldKind::kEpochs ? epoch : 0;
      auto* words = reinterpret_cast<uint32_t*>(base + field.offset);
      std::fill(words, words + field.count, value);
    }
  }
}

}  // namespace megaflux
