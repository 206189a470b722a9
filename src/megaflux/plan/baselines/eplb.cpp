#include "megaflux/plan/baselines/eplb.h"

#include <algorithm>
#include <numeric>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// Weights are fp32 as in the original, where they decide ties: a copy's weight is the fp32 quotient
// of weight and copies. Every operation is one IEEE operation, in the original's order.

struct Packed {
  std::vector<int32_t> bin;       // of each item
  std::vector<int32_t> position;  // in its bin, in order of arrival
};

// Bins hold floor(n / m) items, the first n mod m one more.
Packed pack(std::span<const float> weights, int32_t num_bins) {
  const auto num_items = static_cast<int32_t>(weights.size());
  Packed packed{std::vector<int32_t>(num_items), std::vector<int32_t>(num_items, 0)};
  if (num_items == num_bins) {
    std::iota(packed.bin.begin(), packed.bin.end(), 0);
    return packed;
  }
  std::vector<int32_t> order(num_items);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  std::vector<float> filled(num_bins, 0.0f);
  std::vector<int32_t> items(num_bins, 0);
  for (const int32_t item : order) {
    int32_t lightest = -1;
    for (int32_t bin = 0; bin < num_bins; ++bin) {
      const int32_t room = num_items / num_bins + (bin < num_items % num_bins) - items[bin];
      if (room > 0 && (lightest < 0 || filled[bin] < filled[lightest])) lightest = bin;
    }
    packed.bin[item] = lightest;
    packed.position[item] = items[lightest]++;
    filled[lightest] += weights[item];
  }
  return packed;
}

// Appends copies of the expert with most weight a copy until there are `num_places`; `copies` of
// each expert is overwritten. Returns the expert of every place, the first copies in order first.
std::vector<int32_t> replicate(std::span<const float> weights, int32_t num_places,
                               std::vector<int32_t>& copies) {
  copies.assign(weights.size(), 1);
  std::vector<int32_t> experts(weights.size());
  std::iota(experts.begin(), experts.end(), 0);
  std::vector<float> share(weights.begin(), weights.end());
  while (static_cast<int32_t>(experts.size()) < num_places) {
    const auto most = std::max_element(share.begin(), share.end()) - share.begin();
    experts.push_back(static_cast<int32_t>(most));
    share[most] = weights[most] / static_cast<float>(++copies[most]);
  }
  return experts;
}

// Experts of one node, in its own order -> experts in its places, GPU after GPU.
std::vector<int32_t> fill_node(std::span<const float> weights, int32_t num_places,
                               int32_t num_gpus) {
  std::vector<int32_t> copies;
  const std::vector<int32_t> experts = replicate(weights, num_places, copies);
  std::vector<float> share(num_places);
  for (int32_t i = 0; i < num_places; ++i) {
    share[i] = weights[experts[i]] / static_cast<float>(copies[experts[i]]);
  }
  const Packed packed = pack(share, num_gpus);
  std::vector<int32_t> places(num_places);
  for (int32_t i = 0; i < num_places; ++i) {
    places[first_place(num_places, num_gpus, packed.bin[i]) + packed.position[i]] = experts[i];
  }
  return places;
}

// Experts by node: groups are packed onto nodes with their experts in order.
std::vector<int32_t> order_by_node(std::span<const int64_t> weights, const EplbShape& shape) {
  const auto num_experts = static_cast<int32_t>(weights.size());
  const int32_t group_size = num_experts / shape.num_groups;
  std::vector<float> group_weights(shape.num_groups);
  for (int32_t g = 0; g < shape.num_groups; ++g) {
    const auto first = weights.begin() + g * group_size;
    group_weights[g] = static_cast<float>(std::accumulate(first, first + group_size, int64_t{0}));
  }
  const Packed packed = pack(group_weights, shape.num_nodes);
  std::vector<int32_t> order(num_experts);
  for (int32_t g = 0; g < shape.num_groups; ++g) {
    const int32_t place = packed.bin[g] * (shape.num_groups / shape.num_nodes) + packed.position[g];
    for (int32_t i = 0; i < group_size; ++i) order[place * group_size + i] = g * group_size + i;
  }
  return order;
}

}  // namespace

std::vector<int32_t> rearrange_eplb(std::span<const int64_t> weights, EplbShape shape) {
  if (shape.num_groups % shape.num_nodes != 0) shape.num_groups = shape.num_nodes = 1;
  const auto num_experts = static_cast<int32_t>(weights.size());
  const int32_t num_nodes = shape.num_nodes;
  MF_CHECK(shape.num_places >= num_experts, "eplb: N = ", shape.num_places,
           " places, at least E = ", num_experts, " are needed");
  MF_CHECK(num_experts % shape.num_groups == 0 && shape.num_gpus % num_nodes == 0 &&
               shape.num_places % num_nodes == 0,
           "eplb: G = ", shape.num_groups, " has to divide E = ", num_experts,
           ", and M = ", num_nodes, " N = ", shape.num_places, " and P = ", shape.num_gpus);
  const std::vector<int32_t> order = order_by_node(weights, shape);
  const int32_t node_experts = num_experts / num_nodes;
  std::vector<int32_t> places;
  std::vector<float> node_weights(node_experts);
  for (int32_t node = 0; node < num_nodes; ++node) {
    const int32_t* own = order.data() + node * node_experts;
    for (int32_t i = 0; i < node_experts; ++i) {
      node_weights[i] = static_cast<float>(weights[own[i]]);
    }
    for (const int32_t i :
         fill_node(node_weights, shape.num_places / num_nodes, shape.num_gpus / num_nodes)) {
      places.push_back(own[i]);
    }
  }
  return places;
}

}  // namespace megaflux
