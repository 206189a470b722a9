#include "megaflux/comm/layout.h"

#include <bit>
#include <limits>
#include <utility>

#include "megaflux/base/check.h"

namespace megaflux {

size_t Layout::append(FieldInfo field) {
  for (const FieldInfo& other : fields_) {
    MF_CHECK(other.name != field.name, "layout: field ", field.name, " is listed twice");
  }
  MF_CHECK(std::has_single_bit(field.alignment) && field.alignment <= 4096, "layout: field ",
           field.name, ": alignment ", field.alignment, " is no power of two up to 4096");
  field.offset = round_up(end_, field.alignment);
  // Half of the address space is far beyond any heap and keeps every later sum from wrapping.
  const size_t limit = std::numeric_limits<size_t>::max() / 2 - field.offset;
  MF_CHECK(field.element_bytes == 0 || field.count <= limit / field.element_bytes, "layout: field ",
           field.name, ": ", field.count, " elements of ", field.element_bytes,
           " bytes exceed the limit of ", limit, " bytes");
  end_ = field.offset + field.bytes();
  fields_.push_back(std::move(field));
  return fields_.back().offset;
}

Field<uint32_t> Layout::add_epochs(std::string_view name, size_t count) {
  const size_t offset =
      append({std::string(name), count, sizeof(uint32_t), kFieldAlignment, 0, FieldKind::kEpochs});
  return {offset, count};
}

CounterField Layout::add_counters(std::string_view name, size_t count) {
  MF_CHECK(count <= std::numeric_limits<size_t>::max() / 32, "layout: field ", name, ": ", count,
           " counters exceed the limit");
  const size_t bank_words = round_up(count, kFieldAlignment / sizeof(uint32_t));
  const size_t offset = append({std::string(name), 2 * bank_words, sizeof(uint32_t),
                                kFieldAlignment, 0, FieldKind::kCounters});
  counters_.push_back({offset, count, bank_words});
  return counters_.back();
}

}  // namespace megaflux
