// Which logical expert each physical expert is: systems that replicate number the places of experts
// and record by place.
//
// Example: map {{0, 1, 0}}, one layer: counts {3, 1, 2} of the places are loads {5, 1}; id 2 of a
// token is expert 0.
#pragma once

#include <cstdint>
#include <string>

#include "convert/number_array.h"

namespace megaflux::convert {

class PhysicalMap {
 public:
  // `map` is [layer, place] or [place] for all layers alike; nullptr = the file has none. E is
  // `num_experts`, or the largest expert + 1 if that is 0. Throws kBadInput, opening with `name`:
  // other axes, an expert outside [-1, E) (-1 = an empty place), E above 4096 or above the places.
  PhysicalMap(const NumberArray* map, int32_t num_experts, const std::string& name);

  bool is_there() const { return map_ != nullptr; }
  int32_t num_experts() const { return num_experts_; }
  int64_t num_places() const { return map_->shape.back(); }
  // Throws kBadInput, opening with `where`, unless the map is there and has these layers and
  // places.
  void check_axes(int64_t layers, int64_t places, const std::string& where) const;
  // -1 = an empty place.
  int32_t expert_of(int64_t layer, int64_t place) const {
    const int64_t row = map_->shape.size() == 1 ? 0 : layer;
    return map_->values[row * num_places() + place];
  }

 private:
  const NumberArray* map_;
  int32_t num_experts_;
};

// Counts of places, [step, layer, place] or [layer, place], as counts of experts with the same
// axes. Throws kBadInput, opening with `where`: no map, other axes, rows on an empty place, a sum
// above 2^31 - 1.
NumberArray logical_counts(NumberArray physical, const PhysicalMap& map, const std::string& where);

// Ids [layer, token, slot], of places if there is a map, as ids [token, layer, slot] of experts.
NumberArray token_first_ids(const NumberArray& ids, const PhysicalMap& map,
                            const std::string& where);

}  // namespace megaflux::convert
