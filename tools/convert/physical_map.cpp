#include "convert/physical_map.h"

#include <algorithm>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/moe/limits.h"

namespace megaflux::convert {

PhysicalMap::PhysicalMap(const NumberArray* map, int32_t num_experts, const std::string& name)
    : map_(map), num_experts_(num_experts) {
  if (map == nullptr) return;
  MF_CHECK(map->shape.size() == 1 || map->shape.size() == 2, name, ": the map has shape ",
           shape_text(map->shape), ", [layer, place] or [place] expected");
  MF_CHECK(!map->values.empty(), name, ": the map holds nothing");
  const int32_t largest = *std::max_element(map->values.begin(), map->values.end());
  if (num_experts_ == 0) {
    MF_CHECK(largest >= 0 && largest < kMaxExperts, name, ": the map names expert ", largest,
             ", [0, ", kMaxExperts - 1, "] expected");
    num_experts_ = largest + 1;
  }
  MF_CHECK(num_experts_ <= num_places(), name, ": the map has ", num_places(), " places for ",
           num_experts_, " experts, at least one each expected");
  for (const int32_t expert : map->values) {
    MF_CHECK(expert >= -1 && expert < num_experts_, name, ": the map names expert ", expert,
             ", [-1, ", num_experts_ - 1, "] expected");
  }
}

void PhysicalMap::check_axes(int64_t layers, int64_t places, const std::string& where) const {
  MF_CHECK(is_there(), where, ": counts of physical experts, and no physical_to_logical_map");
  MF_CHECK(num_places() == places, where, ": ", places, " physical experts, the map has ",
           num_places());
  MF_CHECK(map_->shape.size() == 1 || map_->shape[0] == layers, where, ": ", layers,
           " layers, the map has ", map_->shape[0]);
}

NumberArray logical_counts(NumberArray physical, const PhysicalMap& map, const std::string& where) {
  MF_CHECK(physical.shape.size() == 2 || physical.shape.size() == 3, where, ": shape ",
           shape_text(physical.shape),
           ", [step, layer, physical expert] or [layer, physical expert]", " expected");
  const int64_t places = physical.shape.back();
  const int64_t layers = physical.shape[physical.shape.size() - 2];
  map.check_axes(layers, places, where);
  NumberArray logical{.shape = physical.shape, .values = {}};
  logical.shape.back() = map.num_experts();
  logical.values.resize(checked_elements(logical.shape, where));
  for (size_t i = 0; i < physical.values.size(); ++i) {
    const int64_t cell = static_cast<int64_t>(i) / places;
    const int64_t layer = cell % layers;
    const int64_t place = static_cast<int64_t>(i) % places;
    const int32_t expert = map.expert_of(layer, place);
    const int32_t rows = physical.values[i];
    if (rows == 0) continue;
    MF_CHECK(rows > 0, where, ": step ", cell / layers, ", layer ", layer, ", physical expert ",
             place, ": ", rows, " is negative");
    MF_CHECK(expert >= 0, where, ": layer ", layer, ", physical expert ", place, ": ", rows,
             " rows where the map has no expert");
    int32_t& sum = logical.values[cell * map.num_experts() + expert];
    MF_CHECK(rows <= std::numeric_limits<int32_t>::max() - sum, where, ": layer ", layer,
             ", expert ", expert, ": more than ", std::numeric_limits<int32_t>::max(), " rows");
    sum += rows;
  }
  return logical;
}

NumberArray token_first_ids(const NumberArray& ids, const PhysicalMap& map,
                            const std::string& where) {
  MF_CHECK(ids.shape.size() == 3, where, ": shape ", shape_text(ids.shape),
           ", [layer, token, slot] expected");
  const int64_t layers = ids.shape[0];
  const int64_t tokens = ids.shape[1];
  const int64_t slots = ids.shape[2];
  if (map.is_there()) map.check_axes(layers, map.num_places(), where);
  NumberArray first{.shape = {tokens, layers, slots}, .values = {}};
  first.values.reserve(ids.values.size());
  for (int64_t token = 0; token < tokens; ++token) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (int64_t slot = 0; slot < slots; ++slot) {
        const int32_t id = ids.values[(layer * tokens + token) * slots + slot];
        MF_CHECK(!map.is_there() || (id >= -1 && id < map.num_places()), where, ": layer ", layer,
                 ", token ", token, ": physical expert ", id, " is outside [-1, ",
                 map.is_there() ? map.num_places() - 1 : 0, "]");
        first.values.push_back(id < 0 || !map.is_there() ? id : map.expert_of(layer, id));
      }
    }
  }
  return first;
}

}  // namespace megaflux::convert
