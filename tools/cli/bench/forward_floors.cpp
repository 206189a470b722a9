#include "cli/bench/forward_floors.h"

#include <algorithm>

namespace megaflux::cli {
namespace {

constexpr double kFlopsPerMs = 790e9;   // dense bf16 of random data
constexpr double kMemoryPerMs = 4.3e9;  // bytes copied, read and written
constexpr double kLinkPerMs = 350e6;    // bytes one way

// What ranks compute and what crosses between devices.
struct Flow {
  explicit Flow(size_t num_ranks, int32_t devices)
      : num_devices(devices),
        rows(num_ranks),
        experts(num_ranks),
        link_rows(static_cast<size_t>(devices) * devices),
        link_tokens(link_rows.size()),
        replicas(link_rows.size()) {}
  size_t link(int32_t from, int32_t to) const {
    return static_cast<size_t>(from) * num_devices + to;
  }

  int32_t num_devices;
  std::vector<int64_t> rows;         // [P]
  std::vector<int64_t> experts;      // [P] whose weights a rank reads
  std::vector<int64_t> link_rows;    // [source device, host device]
  std::vector<int64_t> link_tokens;  // the same, a token once for each rank
  std::vector<int64_t> replicas;     // [owner's device, host device] whose weights move
};

// Follows rows in global row order through the instances of their experts.
class RowWalk {
 public:
  explicit RowWalk(const Plan& plan)
      : plan_(plan), next_row_(plan.dims().num_experts), instance_(plan.dims().num_experts) {}

  // The rank that computes the next row of `expert`; `is_first` says that it is the first there.
  int32_t host_of_next(int32_t expert, bool& is_first) {
    const auto instances = plan_.instances_of(expert);
    const int64_t row = next_row_[expert]++;
    const int64_t block = row / plan_.dims().block_rows;
    size_t& at = instance_[expert];
    while (block >= instances[at].first_block + instances[at].num_blocks) ++at;
    is_first = row == int64_t{instances[at].first_block} * plan_.dims().block_rows;
    return instances[at].rank;
  }

 private:
  const Plan& plan_;
  std::vector<int64_t> next_row_;  // [E]
  std::vector<size_t> instance_;   // [E] that has the last row
};

Flow flow_of(const PlacedRouting& placed) {
  const size_t num_ranks = placed.routing.size();
  Flow flow(num_ranks, std::ranges::max(placed.device_of) + 1);
  RowWalk walk(placed.plan);
  std::vector<int64_t> last_token(num_ranks, -1);  // [P] that went to a rank, over all sources
  int64_t token = 0;
  for (size_t source = 0; source < num_ranks; ++source) {
    const Routing& routing = placed.routing[source];
    for (size_t i = 0; i < routing.topk_ids.size(); ++i) {
      if (i > 0 && i % routing.topk == 0) ++token;
      bool is_first = false;
      const int32_t host = walk.host_of_next(routing.topk_ids[i], is_first);
      ++flow.rows[host];
      if (is_first) ++flow.experts[host];
      const size_t link = flow.link(placed.device_of[source], placed.device_of[host]);
      ++flow.link_rows[link];
      if (last_token[host] != token) ++flow.link_tokens[link];
      last_token[host] = token;
    }
    ++token;
  }
  return flow;
}

void add_replicas(const PlacedRouting& placed, Flow& flow) {
  for (int32_t expert = 0; expert < placed.plan.dims().num_experts; ++expert) {
    const int32_t owner = placed.plan.owner_of()[expert];
    for (const Instance& instance : placed.plan.instances_of(expert)) {
      if (instance.slot < 0) continue;
      ++flow.replicas[flow.link(placed.device_of[owner], placed.device_of[instance.rank])];
    }
  }
}

// Bytes of a token or result, and of an expert.
struct Sizes {
  int64_t row = 0;
  int64_t expert = 0;
};

// Bytes in the busiest direction of a device: tokens as `dispatched` says, results row by row.
int64_t busiest_link(const Flow& flow, const std::vector<int64_t>& dispatched, const Sizes& sizes) {
  int64_t most = 0;
  for (int32_t device = 0; device < flow.num_devices; ++device) {
    int64_t in = 0, out = 0;
    for (int32_t peer = 0; peer < flow.num_devices; ++peer) {
      if (peer == device) continue;
      const size_t to_peer = flow.link(device, peer), from_peer = flow.link(peer, device);
      in += (dispatched[from_peer] + flow.link_rows[to_peer]) * sizes.row +
            flow.replicas[from_peer] * sizes.expert;
      out += (dispatched[to_peer] + flow.link_rows[from_peer]) * sizes.row +
             flow.replicas[to_peer] * sizes.expert;
    }
    most = std::max({most, in, out});
  }
  return most;
}

}  // namespace

double forward_flops(const LayerShape& shape, int64_t rows) {
  return 6.0 * static_cast<double>(rows) * shape.hidden * shape.inter;
}

ForwardFloors forward_floors(const LayerShape& shape, const PlacedRouting& placed) {
  Flow flow = flow_of(placed);
  if (!placed.is_resident) add_replicas(placed, flow);
  constexpr int64_t kBytes = 2;  // of bf16
  const Sizes sizes = {.row = kBytes * shape.hidden,
                       .expert = kBytes * (shape.w1_elements() + shape.w2_elements())};
  // A row and its result, and its activations twice.
  const int64_t row_bytes = 2 * kBytes * (int64_t{shape.hidden} + shape.inter);
  std::vector<int64_t> memory(flow.num_devices);
  std::vector<int32_t> hosted(flow.num_devices);
  for (const int32_t device : placed.device_of) ++hosted[device];
  ForwardFloors floors;
  for (size_t rank = 0; rank < flow.rows.size(); ++rank) {
    const int32_t device = placed.device_of[rank];
    memory[device] += flow.experts[rank] * sizes.expert + flow.rows[rank] * row_bytes;
    const double ms = forward_flops(shape, flow.rows[rank]) * hosted[device] / kFlopsPerMs;
    floors.math_ms = std::max(floors.math_ms, ms);
  }
  // Weights on their way are read at the owner and written at the host.
  for (int32_t from = 0; from < flow.num_devices; ++from) {
    for (int32_t to = 0; to < flow.num_devices; ++to) {
      const int64_t bytes = flow.replicas[flow.link(from, to)] * sizes.expert;
      memory[from] += bytes;
      memory[to] += bytes;
    }
  }
  const auto ms_of = [](int64_t bytes, double rate) { return static_cast<double>(bytes) / rate; };
  floors.memory_ms = ms_of(std::ranges::max(memory), kMemoryPerMs);
  floors.link_rows_ms = ms_of(busiest_link(flow, flow.link_rows, sizes), kLinkPerMs);
  floors.link_tokens_ms = ms_of(busiest_link(flow, flow.link_tokens, sizes), kLinkPerMs);
  return floors;
}

}  // namespace megaflux::cli
