#include "convert/nested_list.h"

#include "megaflux/base/check.h"

namespace megaflux::convert {
namespace {

constexpr int64_t kUnknown = -1;

}  // namespace

void NestedList::open() {
  const size_t depth = lengths_.size() + 1;
  MF_CHECK(depth <= kMaxNpyDims, where_, ": lists more than ", kMaxNpyDims, " levels deep");
  MF_CHECK(number_depth_ == 0 || depth <= number_depth_, where_,
           ": a list where the others have a number");
  if (!lengths_.empty()) ++lengths_.back();
  lengths_.push_back(0);
  if (array_.shape.size() < depth) array_.shape.push_back(kUnknown);
}

void NestedList::number(int32_t value) {
  if (number_depth_ == 0) number_depth_ = lengths_.size();
  MF_CHECK(lengths_.size() == number_depth_ && array_.shape.size() == number_depth_, where_,
           ": a number where the others have a list");
  MF_CHECK(static_cast<int64_t>(array_.values.size()) < kMaxElements, where_, ": more than ",
           kMaxElements, " numbers");
  ++lengths_.back();
  array_.values.push_back(value);
}

bool NestedList::close() {
  int64_t& extent = array_.shape[lengths_.size() - 1];
  if (extent == kUnknown) extent = lengths_.back();
  MF_CHECK(extent == lengths_.back(), where_, ": a list of ", lengths_.back(),
           " where the others have ", extent);
  lengths_.pop_back();
  return lengths_.empty();
}

NumberArray NestedList::take() {
  // Lists that hold lists and end up without numbers are as empty as they look.
  MF_CHECK(checked_elements(array_.shape, where_) == static_cast<int64_t>(array_.values.size()),
           where_, ": lists without numbers among others");
  return std::move(array_);
}

}  // namespace megaflux::convert
