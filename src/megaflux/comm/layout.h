// Layout: the byte map of a symmetric heap. Fields are listed once (name, count, element size,
// alignment); every offset and the total come from that list, so no size is added up anywhere else.
//
// Example: add<float>("rows", 100) and then add_counters("y_count", 40) give
//   rows     offset    0, 400 bytes
//   y_count  offset  512, 2 banks x 64 words (40 rounded up to whole 128-byte lines) = 512 bytes
// and total_bytes() = 1024. add<T> returns a Field<T>, a plain value that host code and kernels
// resolve against a rank's base pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megaflux/base/math.h"

namespace megaflux {

// Fields start on their own 128-byte line (two cache lines, one L2 sector group), unless told
// otherwise.
inline constexpr size_t kFieldAlignment = 128;

// Place of `count` elements of T in every rank's heap.
template <typename T>
struct Field {
  size_t offset = 0;  // bytes from the rank's base
  size_t count = 0;   // elements
};

// Counters whose targets depend on the plan: two banks of `count` words, launch n uses bank n % 2
// and its entry clears the other one (entry_exit.h).
struct CounterField {
  size_t offset = 0;
  size_t count = 0;       // words of one bank
  size_t bank_words = 0;  // distance of the banks: count rounded up to whole lines
};

// What creation and recover() do with a field.
enum class FieldKind : uint8_t {
  kData,      // zeroed at creation, then left alone
  kEpochs,    // words that hold epochs: set to the epoch "nothing launched yet"
  kCounters,  // words that count: set to 0
};

struct FieldInfo {
  std::string name;
  size_t count = 0;
  size_t element_bytes = 0;
  size_t alignment = 0;
  size_t offset = 0;
  FieldKind kind = FieldKind::kData;
  size_t bytes() const { return count * element_bytes; }
};

class Layout {
 public:
  // `count` elements of T; count may be 0. Throws kBadInput if the name is taken, the alignment is
  // no power of two or the size overflows.
  template <typename T>
  Field<T> add(std::string_view name, size_t count, size_t alignment = kFieldAlignment) {
    static_assert(alignof(T) <= kFieldAlignment);
    return {append({std::string(name), count, sizeof(T), alignment, 0, FieldKind::kData}), count};
  }
  // Words that carry the epoch of the launch that wrote them; never reset between launches.
  Field<uint32_t> add_epochs(std::string_view name, size_t count);
  // `count` counters in each of two banks.
  CounterField add_counters(std::string_view name, size_t count);

  std::span<const FieldInfo> fields() const { return fields_; }
  std::span<const CounterField> counters() const { return counters_; }
  // Bytes of one rank's heap, a multiple of kFieldAlignment.
  size_t total_bytes() const { return round_up(end_, kFieldAlignment); }

 private:
  size_t append(FieldInfo field);

  std::vector<FieldInfo> fields_;
  std::vector<CounterField> counters_;
  size_t end_ = 0;
};

}  // namespace megaflux
