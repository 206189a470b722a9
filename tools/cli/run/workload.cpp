#include "cli/run/workload.h"

#include <algorithm>
#include <cmath>

#include "cli/run/routing_source.h"
#include "megaflux/base/bf16.h"
#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux::cli {
namespace {

// Separate random streams of one seed.
enum class Stream : uint64_t { kTokens = 1, kGradients = 2, kW1 = 3, kW2 = 4 };

uint64_t stream_seed(uint64_t seed, Stream stream, int32_t index) {
  return mix64(mix64(seed) ^ (static_cast<uint64_t>(stream) << 32) ^ static_cast<uint64_t>(index));
}

struct Draw {
  DType dtype = DType::kBf16;
  float scale = 1;
  uint64_t seed = 0;
};

// Fills elements [first, first + count), uniform in [-scale, scale), which has variance scale^2
// / 3.
void draw(Buffer& buffer, int64_t first, int64_t count, const Draw& kind) {
  Rng rng(kind.seed);
  if (kind.dtype == DType::kFp32) {
    float* values = reinterpret_cast<float*>(buffer.data()) + first;
    for (int64_t i = 0; i < count; ++i) values[i] = rng.symmetric(kind.scale);
  } else {
    Bf16* values = reinterpret_cast<Bf16*>(buffer.data()) + first;
    for (int64_t i = 0; i < count; ++i) values[i] = Bf16(rng.symmetric(kind.scale));
  }
}

// Values of unit variance stay near it through a matrix with this scale and `fan_in` columns.
float weight_scale(int32_t fan_in) {
  return std::sqrt(3.0f / static_cast<float>(fan_in));
}

}  // namespace

Workload::Workload(const RunOptions& options) {
  take_routing(options);
  take_owners(options);
}

void Workload::draw_data(uint64_t seed) {
  draw_tokens(seed);
  draw_weights(seed);
}

void Workload::take_routing(const RunOptions& options) {
  RoutingSource source = make_routing(options);
  routing_ = std::move(source.routing);
  origin_ = std::move(source.origin);
  shape_ = {.num_experts = source.num_experts,
            .topk = source.topk,
            .hidden = options.plan.hidden,
            .inter = options.plan.inter,
            .dtype = parse_dtype(options.plan.dtype)};
  check_shape(shape_);
  for (const Routing& routing : routing_) routing_views_.push_back(routing.view());
  loads_ = LoadTable::from_routing(routing_views_, shape_.num_experts);
}

int64_t Workload::num_tokens() const {
  int64_t sum = 0;
  for (const Routing& routing : routing_) sum += routing.num_tokens;
  return sum;
}

int32_t Workload::max_tokens() const {
  int32_t most = 1;
  for (const Routing& routing : routing_) most = std::max(most, routing.num_tokens);
  return most;
}

int32_t Workload::most_owned() const {
  return *std::max_element(owned_experts_.begin(), owned_experts_.end());
}

void Workload::take_owners(const RunOptions& options) {
  owner_of_ = plan_config_of(options.plan, shape_.num_experts, shape_.topk).owner_of;
  if (owner_of_.empty()) owner_of_ = contiguous_owners(shape_.num_experts, num_ranks());
  local_index_ = local_index_of(owner_of_, num_ranks());
  owned_experts_ = megaflux::owned_experts(owner_of_, num_ranks());
}

void Workload::draw_tokens(uint64_t seed) {
  const float unit_variance = std::sqrt(3.0f);
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const int64_t count = int64_t{routing_[rank].num_tokens} * shape_.hidden;
    const auto bytes = static_cast<size_t>(count * dtype_bytes(shape_.dtype));
    x_.emplace_back(bytes);
    dy_.emplace_back(bytes);
    draw(x_.back(), 0, count,
         {shape_.dtype, unit_variance, stream_seed(seed, Stream::kTokens, rank)});
    draw(dy_.back(), 0, count,
         {shape_.dtype, unit_variance, stream_seed(seed, Stream::kGradients, rank)});
    x_pointers_.push_back(count > 0 ? x_.back().data() : nullptr);
    dy_pointers_.push_back(count > 0 ? dy_.back().data() : nullptr);
  }
}

void Workload::draw_weights(uint64_t seed) {
  const int64_t w1 = shape_.w1_elements(), w2 = shape_.w2_elements();
  const int64_t element_bytes = dtype_bytes(shape_.dtype);
  for (const int32_t owned : owned_experts_) {
    w1_.emplace_back(static_cast<size_t>(owned * w1 * element_bytes));
    w2_.emplace_back(static_cast<size_t>(owned * w2 * element_bytes));
  }
  for (int32_t e = 0; e < shape_.num_experts; ++e) {
    Buffer& w1_of_rank = w1_[owner_of_[e]];
    Buffer& w2_of_rank = w2_[owner_of_[e]];
    const int64_t first1 = local_index_[e] * w1, first2 = local_index_[e] * w2;
    draw(w1_of_rank, first1, w1,
         {shape_.dtype, weight_scale(shape_.hidden), stream_seed(seed, Stream::kW1, e)});
    draw(w2_of_rank, first2, w2,
         {shape_.dtype, weight_scale(shape_.inter), stream_seed(seed, Stream::kW2, e)});
    expert_views_.push_back({.w1 = w1_of_rank.data() + first1 * element_bytes,
                             .w2 = w2_of_rank.data() + first2 * element_bytes});
  }
}

ReferenceProblem Workload::reference_problem(bool has_backward) const {
  ReferenceProblem problem;
  problem.shape = shape_;
  problem.routing = routing_views_;
  problem.x = x_pointers_;
  problem.experts = expert_views_;
  if (has_backward) problem.dy = dy_pointers_;
  return problem;
}

}  // namespace megaflux::cli
