#include "parity/step_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "megaflux/base/bf16.h"
#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"

namespace megaflux {
namespace {

TypedVector random_vector(DType dtype, int64_t count, float scale, Rng& rng) {
  TypedVector values(dtype, count);
  for (int64_t i = 0; i < count; ++i) values.set(i, rng.symmetric(scale));
  return values;
}

int64_t draw_expert(const StepData& data, Rng& rng) {
  const int32_t num_experts = data.shape().num_experts;
  const auto uniform = static_cast<int64_t>(rng.below(num_experts));
  if (data.layer_case.route != RouteKind::kSkewed) return uniform;
  return std::min<int64_t>(uniform, rng.below(static_cast<uint32_t>(uniform) + 1));
}

// The ids of one token.
std::vector<int64_t> draw_token(const StepData& data, Rng& rng) {
  const LayerCase& c = data.layer_case;
  const int32_t topk = c.shape.topk;
  std::vector<int64_t> ids;
  std::vector<int64_t> of_rank_0;
  for (int32_t e = 0; e < c.shape.num_experts; ++e) {
    if (data.owner_of[e] == 0) of_rank_0.push_back(e);
  }
  while (static_cast<int32_t>(ids.size()) < topk) {
    int64_t id = draw_expert(data, rng);
    if (c.route == RouteKind::kOneHot) id = static_cast<int64_t>(ids.size());
    if (c.route == RouteKind::kAllToRank0)
      id = of_rank_0[rng.below(static_cast<uint32_t>(of_rank_0.size()))];
    if (c.route == RouteKind::kNone) id = -1;
    const bool may_repeat = c.route == RouteKind::kDuplicates || c.route == RouteKind::kNone;
    if (!may_repeat && std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
    ids.push_back(id);
  }
  if (c.route == RouteKind::kHoles) {
    const uint32_t kind = rng.below(4);
    if (kind == 0) ids.front() = -1;
    if (kind == 1) ids[topk / 2] = -1;
    if (kind == 2) ids.back() = -1;
    if (kind == 3 && rng.below(4) == 0) std::fill(ids.begin(), ids.end(), -1);
  }
  return ids;
}

std::vector<int32_t> blocks_of(const LoadTable& loads, int32_t block_rows) {
  std::vector<int32_t> blocks(loads.num_experts());
  for (int32_t e = 0; e < loads.num_experts(); ++e) blocks[e] = loads.blocks(e, block_rows);
  return blocks;
}

Plan lay_out(const StepData& data, int32_t block_rows, std::span<const DraftReplica> replicas) {
  const std::vector<int32_t> blocks = blocks_of(data.loads(), block_rows);
  Plan plan;
  plan.assign({.dims = {.num_experts = data.shape().num_experts,
                        .num_ranks = data.num_ranks(),
                        .replica_slots = data.layer_case.replica_slots,
                        .block_rows = block_rows},
               .owner_of = data.owner_of,
               .blocks = blocks,
               .replicas = replicas});
  return plan;
}

}  // namespace

void TypedVector::set(int64_t i, float value) {
  if (dtype == DType::kBf16) {
    reinterpret_cast<Bf16*>(bytes.data())[i] = Bf16(value);
  } else {
    reinterpret_cast<float*>(bytes.data())[i] = value;
  }
}

void TypedVector::poison() {
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
}

StepData::StepData(const LayerCase& the_case, uint64_t seed) : layer_case(the_case) {
  const int32_t ranks = num_ranks();
  owner_of = contiguous_owners(shape().num_experts, ranks);
  if (layer_case.is_owner_scattered) {
    Rng shuffle(seed + 77);
    for (size_t i = owner_of.size(); i > 1; --i) {
      std::swap(owner_of[i - 1], owner_of[shuffle.below(static_cast<uint32_t>(i))]);
    }
  }
  Rng rng(seed);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const int64_t count = int64_t{layer_case.tokens[rank]} * shape().hidden;
    x.push_back(random_vector(shape().dtype, count, 1.0f, rng));
    dy.push_back(random_vector(shape().dtype, count, 1.0f, rng));
  }
  w1.resize(ranks);
  w2.resize(ranks);
  b1.resize(ranks);
  b2.resize(ranks);
  const auto owned = owned_experts(owner_of, ranks);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    w1[rank] = TypedVector(shape().dtype, owned[rank] * shape().w1_elements());
    w2[rank] = TypedVector(shape().dtype, owned[rank] * shape().w2_elements());
    if (!shape().has_bias) continue;
    b1[rank].resize(owned[rank] * 2 * shape().inter);
    b2[rank].resize(owned[rank] * shape().hidden);
  }
  redraw_weights(seed + 1);
  draw_routing(seed + 2);
  refresh_views();
}

void StepData::redraw_weights(uint64_t seed) {
  Rng rng(seed);
  const float scale1 = 2.0f / std::sqrt(static_cast<float>(shape().hidden));
  const float scale2 = 2.0f / std::sqrt(static_cast<float>(shape().inter));
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    for (int64_t i = 0; i < w1[rank].size(); ++i) w1[rank].set(i, rng.symmetric(scale1));
    for (int64_t i = 0; i < w2[rank].size(); ++i) w2[rank].set(i, rng.symmetric(scale2));
    for (float& value : b1[rank]) value = rng.symmetric(0.5f);
    for (float& value : b2[rank]) value = rng.symmetric(0.5f);
  }
}

void StepData::draw_routing(uint64_t seed) {
  Rng rng(seed);
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    std::vector<int64_t> ids;
    std::vector<float> weights;
    for (int32_t token = 0; token < layer_case.tokens[rank]; ++token) {
      for (const int64_t id : draw_token(*this, rng)) {
        ids.push_back(id);
        weights.push_back(0.05f + 0.9f * static_cast<float>(rng.uniform()));
      }
    }
    valid_tokens_.push_back(std::max(0, layer_case.tokens[rank] - layer_case.invalid_tokens));
    // Garbage behind the valid tokens, which nothing may read.
    for (size_t i = static_cast<size_t>(valid_tokens_.back()) * shape().topk; i < ids.size(); ++i) {
      ids[i] = 30'000;
      weights[i] = NAN;
    }
    ids_.push_back(std::move(ids));
    topk_weights.push_back(std::move(weights));
  }
}

void StepData::refresh_views() {
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const size_t size = layer_case.id_type == IdType::kInt16   ? 2
                        : layer_case.id_type == IdType::kInt32 ? 4
                                                               : 8;
    std::vector<std::byte> bytes(ids_[rank].size() * size);
    // Little-endian: the low bytes of the wide id are the narrow one.
    for (size_t i = 0; i < ids_[rank].size(); ++i) {
      std::memcpy(bytes.data() + i * size, &ids_[rank][i], size);
    }
    id_bytes_.push_back(std::move(bytes));
  }
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const bool has_tokens = layer_case.tokens[rank] > 0;
    routing.push_back(
        {.num_tokens = layer_case.tokens[rank],
         .topk = shape().topk,
         .id_type = layer_case.id_type,
         .topk_ids = has_tokens ? id_bytes_[rank].data() : nullptr,
         .topk_weights = has_tokens ? topk_weights[rank].data() : nullptr,
         .num_valid_tokens = layer_case.invalid_tokens > 0 ? &valid_tokens_[rank] : nullptr});
    x_pointers_.push_back(has_tokens ? x[rank].bytes.data() : nullptr);
    dy_pointers_.push_back(has_tokens ? dy[rank].bytes.data() : nullptr);
  }
  const auto local = local_index_of(owner_of, num_ranks());
  for (int32_t e = 0; e < shape().num_experts; ++e) {
    const ExpertWeights expert = owned_expert(shape(), owned(owner_of[e]), local[e]);
    experts_.push_back({expert.w1, expert.w2, expert.b1, expert.b2});
  }
}

OwnedWeights StepData::owned(int32_t rank) const {
  return {.w1 = w1[rank].bytes.data(),
          .w2 = w2[rank].bytes.data(),
          .b1 = shape().has_bias ? b1[rank].data() : nullptr,
          .b2 = shape().has_bias ? b2[rank].data() : nullptr};
}

LoadTable StepData::loads() const {
  return LoadTable::from_routing(routing, shape().num_experts);
}

ReferenceProblem StepData::problem() const {
  return {.shape = shape(),
          .routing = routing,
          .x = x_pointers_,
          .dy = dy_pointers_,
          .experts = experts_};
}

Plan fixed_plan(const StepData& data, int32_t block_rows) {
  return lay_out(data, block_rows, {});
}

Plan random_plan(const StepData& data, int32_t block_rows, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> left = blocks_of(data.loads(), block_rows);
  std::vector<DraftReplica> replicas;
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    std::vector<int32_t> candidates;
    for (int32_t e = 0; e < data.shape().num_experts; ++e) {
      if (data.owner_of[e] != rank && left[e] > 0) candidates.push_back(e);
    }
    for (int32_t slot = 0; slot < data.layer_case.replica_slots && !candidates.empty(); ++slot) {
      if (rng.below(8) == 0) continue;
      const uint32_t pick = rng.below(static_cast<uint32_t>(candidates.size()));
      const int32_t expert = candidates[pick];
      candidates.erase(candidates.begin() + pick);
      const auto blocks = static_cast<int32_t>(1 + rng.below(left[expert]));
      replicas.push_back({expert, rank, blocks});
      left[expert] -= blocks;
    }
  }
  return lay_out(data, block_rows, replicas);
}

Plan spread_plan(const StepData& data, int32_t block_rows) {
  const std::vector<int32_t> blocks = blocks_of(data.loads(), block_rows);
  std::vector<int32_t> hottest(blocks.size());
  std::iota(hottest.begin(), hottest.end(), 0);
  std::stable_sort(hottest.begin(), hottest.end(),
                   [&](int32_t a, int32_t b) { return blocks[a] > blocks[b]; });
  std::vector<DraftReplica> replicas;
  const int32_t share = data.num_ranks();
  for (int32_t rank = 0; rank < data.num_ranks(); ++rank) {
    int32_t used = 0;
    for (const int32_t e : hottest) {
      const int32_t quota = blocks[e] / share;
      if (used == data.layer_case.replica_slots) break;
      if (data.owner_of[e] == rank || quota == 0) continue;
      replicas.push_back({e, rank, quota});
      ++used;
    }
  }
  return lay_out(data, block_rows, replicas);
}

Plan plan_of(const StepData& data, uint64_t seed) {
  const int32_t block_rows = data.layer_case.block_rows;
  switch (data.layer_case.plan) {
    case PlanChoice::kFixed:
      return fixed_plan(data, block_rows);
    case PlanChoice::kSpread:
      return spread_plan(data, block_rows);
    case PlanChoice::kRandom:
      break;
  }
  return random_plan(data, block_rows, seed);
}

}  // namespace megaflux
