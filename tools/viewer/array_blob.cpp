#include "viewer/array_blob.h"

#include <array>
#include <bit>

#include "megaflux/base/math.h"

namespace megaflux::viewer {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

constexpr uint64_t kAlignment = 4;
constexpr std::array<const char*, 4> kTypeNames = {"f32", "u32", "u16", "u8"};

}  // namespace

Json ArrayBlob::add(Array array) {
  const Json reference = {
      {"at", size_bytes_},
      {"count", std::visit([](const auto& values) { return values.size(); }, array)},
      {"type", kTypeNames[array.index()]}};
  size_bytes_ +=
      std::visit([](const auto& values) { return std::as_bytes(std::span(values)).size(); }, array);
  size_bytes_ = round_up(size_bytes_, kAlignment);
  arrays_.push_back(std::move(array));
  return reference;
}

void ArrayBlob::for_each_piece(const std::function<void(std::span<const std::byte>)>& take) const {
  constexpr std::array<std::byte, kAlignment> kPadding = {};
  for (const Array& array : arrays_) {
    const auto bytes =
        std::visit([](const auto& values) { return std::as_bytes(std::span(values)); }, array);
    take(bytes);
    take(std::span(kPadding).first(round_up(bytes.size(), size_t{kAlignment}) - bytes.size()));
  }
}

}  // namespace megaflux::viewer
