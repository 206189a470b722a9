// Owner tables of many layers in one JSON file, schema "megaflux.owners/1": what `simulate
// --suggest-owners` writes and `--owners` reads. A file is untrusted: its schema and every owner
// are checked.
//
// Example, E = 4, P = 2, one layer (the first of the trace, layer 3 of the model):
//   {"schema": "megaflux.owners/1", "num_experts": 4, "num_ranks": 2,
//    "layers": [{"layer_index": 0, "layer": 3, "owner_of": [0, 1, 1, 0]}]}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megaflux::cli {

inline constexpr std::string_view kOwnersSchema = "megaflux.owners/1";

struct OwnerTableSize {
  int32_t num_experts = 0;
  int32_t num_ranks = 0;
};

// Layers by index, [first, end).
struct LayerSpan {
  int32_t first = 0;
  int32_t end = 0;
};

// The tables of these layers; each must be there once. `path` is the file that `text` is of. Throws
// kBadInput naming --owners, file, member, value and limit.
std::vector<std::vector<int32_t>> parse_owners_json(std::string_view text, const std::string& path,
                                                    const OwnerTableSize& size, LayerSpan layers);

}  // namespace megaflux::cli
