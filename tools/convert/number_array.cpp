#include "convert/number_array.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "megaflux/base/check.h"

namespace megaflux::convert {
namespace {

template <typename T>
void copy_values(std::span<const std::byte> payload, std::string_view where,
                 std::vector<int32_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, payload.data() + i * sizeof(T), sizeof(T));
    MF_CHECK(std::in_range<int32_t>(value), where, ": element ", i, ": ", +value, " is outside [",
             std::numeric_limits<int32_t>::min(), ", ", std::numeric_limits<int32_t>::max(), "]");
    values[i] = static_cast<int32_t>(value);
  }
}

}  // namespace

int64_t checked_elements(const std::vector<int64_t>& shape, std::string_view where) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    MF_CHECK(extent <= kMaxElements / elements, where, ": shape ", shape_text(shape),
             " has more than ", kMaxElements, " elements");
    elements *= extent;
  }
  return elements;
}

NumberArray number_array(const NpyView& view, std::string_view where) {
  NumberArray array{.shape = view.shape, .values = {}};
  MF_CHECK(view.type != NpyType::kFloat32 && view.type != NpyType::kText, where, ": dtype ",
           npy_descr(view.type), ", whole numbers expected; write array.astype(np.int32)");
  array.values.resize(checked_elements(view.shape, where));
  switch (view.type) {
    case NpyType::kUint8:
      copy_values<uint8_t>(view.payload, where, array.values);
      break;
    case NpyType::kInt8:
      copy_values<int8_t>(view.payload, where, array.values);
      break;
    case NpyType::kUint16:
      copy_values<uint16_t>(view.payload, where, array.values);
      break;
    case NpyType::kInt16:
      copy_values<int16_t>(view.payload, where, array.values);
      break;
    case NpyType::kUint32:
      copy_values<uint32_t>(view.payload, where, array.values);
      break;
    case NpyType::kInt32:
      copy_values<int32_t>(view.payload, where, array.values);
      break;
    case NpyType::kUint64:
      copy_values<uint64_t>(view.payload, where, array.values);
      break;
    case NpyType::kInt64:
      copy_values<int64_t>(view.payload, where, array.values);
      break;
    case NpyType::kFloat32:
    case NpyType::kText:
      break;
  }
  return array;
}

}  // namespace megaflux::convert
