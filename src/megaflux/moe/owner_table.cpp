#include "megaflux/moe/owner_table.h"

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

void check_owners(std::span<const int32_t> owner_of, int32_t num_ranks) {
  for (size_t e = 0; e < owner_of.size(); ++e) {
    MF_CHECK(owner_of[e] >= 0 && owner_of[e] < num_ranks, "owner_of: expert ", e, ": rank ",
             owner_of[e], " is outside [0, ", num_ranks, ")");
  }
}

}  // namespace

std::vector<int32_t> contiguous_owners(int32_t num_experts, int32_t num_ranks) {
  MF_CHECK(num_ranks >= 1, "num_ranks: ", num_ranks, " must be at least 1");
  MF_CHECK(num_experts >= 1, "num_experts: ", num_experts, " must be at least 1");
  std::vector<int32_t> owner_of;
  owner_of.reserve(num_experts);
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const int32_t count = num_experts / num_ranks + (rank < num_experts % num_ranks);
    owner_of.insert(owner_of.end(), count, rank);
  }
  return owner_of;
}

std::vector<int32_t> local_index_of(std::span<const int32_t> owner_of, int32_t num_ranks) {
  check_owners(owner_of, num_ranks);
  std::vector<int32_t> next(num_ranks, 0);
  std::vector<int32_t> local;
  local.reserve(owner_of.size());
  for (const int32_t owner : owner_of) local.push_back(next[owner]++);
  return local;
}

std::vector<int32_t> owned_experts(std::span<const int32_t> owner_of, int32_t num_ranks) {
  check_owners(owner_of, num_ranks);
  std::vector<int32_t> count(num_ranks, 0);
  for (const int32_t owner : owner_of) ++count[owner];
  return count;
}

}  // namespace megaflux
