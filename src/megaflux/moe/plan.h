// Plan: which instance computes which blocks of which expert. Immutable, one flat little-endian
// buffer whose size depends on (E, P, s) only, so that ranks and devices exchange, hash and store
// it as it is.
//
// Example, E = 3, P = 2, s = 1, beta = 128, owners {0, 0, 1}, blocks {5, 1, 1}. Rank 0 owns 6
// blocks, rank 1 one. A plan that gives two blocks of expert 0 to a replica in slot 0 of rank 1:
//   instance_begin = {0, 2, 3, 4}
//   instances      = {rank 0, slot -1, blocks [0, 3)}, {rank 1, slot 0, blocks [3, 5)},   expert 0
//                    {rank 0, slot -1, blocks [0, 1)},                                    expert 1
//                    {rank 1, slot -1, blocks [0, 1)}, {0, 0, 0, 0} (tail)                expert 2
//   slot_expert    = {-1, 0};  loads 4 and 3 blocks;  num_copies 1.
// Instances of an expert stand in ascending rank order and get its blocks in that order: rows are
// sorted by source rank, so a row tends to stay where its token is. The owner is always listed,
// even with 0 blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "megaflux/moe/limits.h"

namespace megaflux {

struct PlanDims {
  int32_t num_experts = 0;    // E
  int32_t num_ranks = 0;      // P
  int32_t replica_slots = 0;  // s, slots a rank
  int32_t block_rows = 128;   // beta; row-granular planners emit 1
  friend bool operator==(const PlanDims&, const PlanDims&) = default;
};

// Throws kBadInput naming the field unless E, P and block_rows are in [1, limit] and s in
// [0, limit].
void check_dims(const PlanDims& dims);

struct Instance {
  int32_t rank = 0;
  int32_t slot = 0;  // replica slot on `rank`; -1 = the owner's own expert
  int32_t first_block = 0;
  int32_t num_blocks = 0;
  friend bool operator==(const Instance&, const Instance&) = default;
};
static_assert(sizeof(Instance) == 16);

enum PlanFlag : uint16_t {
  kPlanGateRefused = 1,  // replication was possible, and the gate chose fixed placement
  kPlanFromOutside = 2,  // made elsewhere, accepted after a check
};

struct PlanHeader {
  uint32_t magic = 0x4c50464d;  // "MFPL" as little-endian bytes
  uint16_t version = 1;
  uint16_t flags = 0;  // PlanFlag bits
  int32_t num_experts = 0;
  int32_t num_ranks = 0;
  int32_t replica_slots = 0;
  int32_t block_rows = 0;
  int32_t num_instances = 0;
  int32_t search_id = -1;  // member of the portfolio that won; -1 = no search
  int32_t max_blocks = 0;  // largest number of blocks on a rank
  int32_t num_copies = 0;  // replicas that are not resident: weights that must move
  uint64_t objective = 0;  // value the planner minimised, in the unit of its objective
  uint64_t hash = 0;       // see Plan::computed_hash
  uint64_t reserved = 0;
};
static_assert(sizeof(PlanHeader) == 64);

// Byte offsets of a plan's arrays, listed once; total_bytes is the size of the buffer.
struct PlanLayout {
  explicit constexpr PlanLayout(const PlanDims& dims) {
    const size_t experts = dims.num_experts;
    const size_t slots = static_cast<size_t>(dims.num_ranks) * dims.replica_slots;
    size_t offset = sizeof(PlanHeader);
    const auto field = [&offset](size_t count, size_t element_bytes) {
      const size_t begin = offset;
      offset += count * element_bytes;
      return begin;
    };
    owner_of = field(experts, sizeof(int32_t));
    instance_begin = field(experts + 1, sizeof(int32_t));
    instances = field(experts + slots, sizeof(Instance));
    slot_expert = field(slots, sizeof(int32_t));
    slot_resident = field(slots, sizeof(uint8_t));
    total_bytes = offset;
  }

  size_t owner_of = 0;        // i32 [E]
  size_t instance_begin = 0;  // i32 [E + 1]
  size_t instances = 0;       // Instance [E + P s], by (expert, rank), tail zero
  size_t slot_expert = 0;     // i32 [P s], -1 = empty
  size_t slot_resident = 0;   // u8 [P s], 1 = the slot already holds the expert, nothing moves
  size_t total_bytes = 0;
};

// A replica as planners decide it, before slots and block ranges are laid out.
struct DraftReplica {
  int32_t expert = 0;
  int32_t rank = 0;
  int32_t num_blocks = 0;
};

// What a plan is laid out from.
struct PlanDraft {
  PlanDims dims;
  std::span<const int32_t> owner_of;       // [E]
  std::span<const int32_t> blocks;         // [E], b_e
  std::span<const DraftReplica> replicas;  // any order; the owner keeps the rest of b_e
  std::span<const int32_t> resident =
      {};  // [P s] expert held by each slot, -1 = none; empty = all -1
  uint16_t flags = 0;
  int32_t search_id = -1;
  uint64_t objective = 0;
};

class Plan {
 public:
  Plan() = default;

  // Lays the draft out. A replica whose expert is resident on its rank keeps that slot; the others
  // take the rank's free slots in ascending expert order, slots without a resident expert first.
  // Reuses the memory of the plan it is called on: no allocation once a plan of this size was
  // there. The draft must be legal (plan/legality.h); one that cannot be laid out is kInternal and
  // leaves the plan empty.
  void assign(const PlanDraft& draft);

  // Takes bytes from outside. Throws kBadInput if they are no plan: wrong magic, version, flags,
  // size or dimensions, an index outside its table, blocks that pass 2^31 - 1, a tail that is not
  // zero, or a hash that does not match. What it returns is safe to walk; legality against loads is
  // plan/legality.h's job.
  static Plan from_bytes(std::span<const std::byte> bytes);

  // The same plan, marked kPlanFromOutside.
  Plan marked_from_outside() const;

  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  const PlanHeader& header() const { return *at<PlanHeader>(0); }
  PlanDims dims() const {
    const PlanHeader& h = header();
    return {h.num_experts, h.num_ranks, h.replica_slots, h.block_rows};
  }
  uint64_t hash() const { return header().hash; }

  std::span<const int32_t> owner_of() const;
  // Instances of one expert, ascending rank.
  std::span<const Instance> instances_of(int32_t expert) const {
    const PlanLayout layout(dims());
    const int32_t* begin = at<int32_t>(layout.instance_begin);
    const Instance* instances = at<Instance>(layout.instances);
    return {instances + begin[expert], instances + begin[expert + 1]};
  }
  std::span<const int32_t> slot_expert() const;    // [P s]
  std::span<const uint8_t> slot_resident() const;  // [P s]
  int32_t num_replicas() const { return header().num_instances - header().num_experts; }
  // Blocks each rank computes; `blocks` [P] is overwritten.
  void blocks_per_rank(std::span<int32_t> blocks) const;

  // Hash over E, P, s, block_rows and everything after the header, as 32-bit words in that order.
  uint64_t computed_hash() const;

  friend bool operator==(const Plan& a, const Plan& b) { return a.bytes_ == b.bytes_; }

 private:
  template <typename T>
  const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  template <typename T>
  T* at(size_t offset) {
    return reinterpret_cast<T*>(bytes_.data() + offset);
  }
  void place_instances(const PlanDraft& draft, const PlanLayout& layout);
  void place_slots(const PlanDraft& draft, const PlanLayout& layout);
  void seal(const PlanDraft& draft, const PlanLayout& layout);
  void check_index(const PlanLayout& layout) const;
  void check_instances(const PlanLayout& layout) const;

  std::vector<std::byte> bytes_;
};

}  // namespace megaflux
