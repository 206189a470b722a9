// ArrayBlob: the arrays of a report, one after the other in one run of little-endian bytes.
//
// Example: {1, 2, 3} as u8 stands at byte 0; {0.5} as f32, added next, at byte 4, since every array
// begins at a multiple of four; the blob then has 8 bytes. What finds the second array in the file
// is {"at": 4, "count": 1, "type": "f32"}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <variant>
#include <vector>

namespace megaflux::viewer {

// Members keep the order in which they are added, so that equal reports are equal bytes.
using Json = nlohmann::ordered_json;

class ArrayBlob {
 public:
  using Array = std::variant<std::vector<float>, std::vector<uint32_t>, std::vector<uint16_t>,
                             std::vector<uint8_t>>;

  // Takes the array over and returns its reference.
  Json add(Array array);

  uint64_t size_bytes() const { return size_bytes_; }
  // Calls `take` with the blob's bytes, piece after piece.
  void for_each_piece(const std::function<void(std::span<const std::byte>)>& take) const;

 private:
  std::vector<Array> arrays_;
  uint64_t size_bytes_ = 0;
};

}  // namespace megaflux::viewer
