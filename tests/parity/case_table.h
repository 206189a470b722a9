// The one table of layer cases: parity with the reference, gradients and, later, speed are read off
// it.
//
// Each axis appears at its minimum in at least one case, and the suite prints how often each value
// of an axis occurs; a value that never occurs fails it.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "megaflux/moe/layer_shape.h"
#include "megaflux/moe/routing.h"

namespace megaflux {

enum class RouteKind : uint8_t {
  kUniform,     // K distinct experts a token
  kSkewed,      // low experts far more often
  kOneHot,      // every token picks the same K experts
  kDuplicates,  // ids may repeat in a token
  kHoles,       // ids are -1 at the head, in the middle and at the tail
  kAllToRank0,  // only experts that rank 0 owns
  kNone,        // every id is -1
};
enum class PlanChoice : uint8_t { kFixed, kRandom, kSpread };
enum class ZChoice : uint8_t { kSaved, kPartly, kRecomputed };

struct LayerCase {
  std::string name;
  LayerShape shape;
  std::vector<int32_t> tokens;  // [P] T of each rank
  RouteKind route = RouteKind::kUniform;
  PlanChoice plan = PlanChoice::kRandom;
  int32_t replica_slots = 2;
  int32_t block_rows = 128;
  int32_t pool_tiles = 0;  // 0 = the default capacity
  ZChoice z = ZChoice::kSaved;
  IdType id_type = IdType::kInt32;
  int32_t invalid_tokens = 0;  // of each rank, at the end, with garbage ids behind num_valid_tokens
  bool is_owner_scattered = false;  // owners are not contiguous

  int32_t num_ranks() const { return static_cast<int32_t>(tokens.size()); }
};

// For messages of tests.
inline std::ostream& operator<<(std::ostream& out, const LayerCase& c) {
  return out << c.name;
}

std::span<const LayerCase> case_table();
const LayerCase& case_named(const std::string& name);

// How often each value of each axis occurs in the table: axis -> value -> count. Every value that
// the axis must have is listed, with 0 if no case has it.
std::map<std::string, std::map<std::string, int32_t>> axis_coverage();

}  // namespace megaflux
