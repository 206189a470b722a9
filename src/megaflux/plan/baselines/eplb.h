// EPLB's rearrangement (DeepSeek, hierarchical and global): which expert stands in which place.
//
// Hierarchical, N places, G groups, M nodes, P GPUs: groups are packed onto nodes; each node then
// copies the expert with most weight a copy until its N / M places are taken; the copies are packed
// onto the node's GPUs, N / P each. Global is the same with one group and one node.
// Packing: items by weight descending, each to the lightest bin that is not full.
//
// Example, 3 experts with weights {6, 2, 1}, N 4, G 1, M 1, P 2: expert 0 gets the spare place, so
// there are copies 0, 1, 2, 0 of weights 3, 2, 1, 3. By weight, 0 goes to GPU 0, the other 0 to GPU
// 1, then 1 to GPU 0 and 2 to GPU 1. The places: {0, 1, 0, 2}.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megaflux {

struct EplbShape {
  int32_t num_places = 0;  // N
  int32_t num_groups = 1;  // G; a count of groups that M does not divide means global
  int32_t num_nodes = 1;   // M
  int32_t num_gpus = 1;    // P
};

// Expert in each place, [N], GPU after GPU; `weights` is [E], N >= E. Throws kBadInput if N is too
// small, or, hierarchical, G does not divide E or M does not divide N and P.
std::vector<int32_t> rearrange_eplb(std::span<const int64_t> weights, EplbShape shape);

// First place of a GPU. N / P places each; where P does not divide N (which the original refuses),
// the first N mod P GPUs have one more.
constexpr int32_t first_place(int32_t num_places, int32_t num_gpus, int32_t gpu) {
  const int32_t more = num_places % num_gpus;
  return num_places / num_gpus * gpu + (gpu < more ? gpu : more);
}

}  // namespace megaflux
