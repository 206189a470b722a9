// Builds a NumberArray from the events of a nested list, [[1, 2], [3, 4]], checking as it goes that
// all lists of a level have one length.
#pragma once

#include <cstdint>
#include <string>

#include "convert/number_array.h"

namespace megaflux::convert {

class NestedList {
 public:
  // `where` opens every message.
  explicit NestedList(std::string where) : where_(std::move(where)) {}

  void open();
  void number(int32_t value);
  // True if this closed the outermost list.
  bool close();
  NumberArray take();
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  NumberArray array_;
  std::vector<int64_t> lengths_;  // of the lists that are open, so far
  size_t number_depth_ = 0;       // where numbers stand; 0 = none seen
};

}  // namespace megaflux::convert
