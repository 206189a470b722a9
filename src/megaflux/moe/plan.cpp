#include "megaflux/moe/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"

namespace megaflux {
namespace {

static_assert(std::endian::native == std::endian::little, "plan buffers are little-endian");

size_t num_slots(const PlanDims& dims) {
  return static_cast<size_t>(dims.num_ranks) * dims.replica_slots;
}

// What assign() indexes with; the rest shows while the plan is laid out.
void check_draft(const PlanDraft& draft) {
  check_dims(draft.dims);
  const size_t experts = draft.dims.num_experts;
  const size_t slots = num_slots(draft.dims);
  MF_INVARIANT(draft.owner_of.size() == experts && draft.blocks.size() == experts, "owner_of has ",
               draft.owner_of.size(), " entries, blocks has ", draft.blocks.size(), ", E is ",
               experts);
  MF_INVARIANT(draft.resident.empty() || draft.resident.size() == slots, "resident has ",
               draft.resident.size(), " entries for ", slots, " slots");
  MF_INVARIANT(draft.replicas.size() <= slots, draft.replicas.size(), " replicas for ", slots,
               " slots");
  for (size_t e = 0; e < experts; ++e) {
    MF_INVARIANT(draft.owner_of[e] >= 0 && draft.owner_of[e] < draft.dims.num_ranks, "expert ", e,
                 ": owner ", draft.owner_of[e]);
    MF_INVARIANT(draft.blocks[e] >= 0, "expert ", e, ": ", draft.blocks[e], " blocks");
  }
  for (const DraftReplica& replica : draft.replicas) {
    MF_INVARIANT(replica.expert >= 0 && replica.expert < draft.dims.num_experts &&
                     replica.rank >= 0 && replica.rank < draft.dims.num_ranks &&
                     replica.num_blocks >= 0,
                 "replica of expert ", replica.expert, " on rank ", replica.rank, " with ",
                 replica.num_blocks, " blocks");
  }
}

// Gives the owner, which comes first, the blocks that its replicas leave; then ranks ascending and
// ranges in that order.
void order_instances(int32_t expert, int32_t blocks, std::span<Instance> own) {
  int64_t rest = blocks;
  for (const Instance& replica : own.subspan(1)) rest -= replica.num_blocks;
  MF_INVARIANT(rest >= 0, "expert ", expert, ": replicas hold ", -rest, " blocks more than its ",
               blocks);
  own[0].num_blocks = static_cast<int32_t>(rest);
  if (own.size() == 1) return;
  std::sort(own.begin(), own.end(),
            [](const Instance& a, const Instance& b) { return a.rank < b.rank; });
  int32_t next_block = 0;
  int32_t last_rank = -1;
  for (Instance& instance : own) {
    MF_INVARIANT(instance.rank > last_rank, "expert ", expert, ": two instances on rank ",
                 last_rank);
    last_rank = instance.rank;
    instance.first_block = next_block;
    next_block += instance.num_blocks;
  }
}

// The first free slot of a rank that holds nothing, else the first free one; -1 = none.
int32_t free_slot(std::span<const int32_t> taken, std::span<const int32_t> held) {
  int32_t first_free = -1;
  for (int32_t slot = 0; slot < static_cast<int32_t>(taken.size()); ++slot) {
    if (taken[slot] >= 0) continue;
    if (held.empty() || held[slot] < 0) return slot;
    if (first_free < 0) first_free = slot;
  }
  return first_free;
}

}  // namespace

void check_dims(const PlanDims& dims) {
  const auto check = [](const char* name, int32_t value, int32_t least, int32_t most) {
    MF_CHECK(value >= least && value <= most, name, ": ", value, " is outside [", least, ", ", most,
             "]");
  };
  check("num_experts", dims.num_experts, 1, kMaxExperts);
  check("num_ranks", dims.num_ranks, 1, kMaxRanks);
  check("replica_slots", dims.replica_slots, 0, kMaxReplicaSlots);
  check("block_rows", dims.block_rows, 1, kMaxBlockRows);
}

void Plan::assign(const PlanDraft& draft) {
  const PlanLayout layout(draft.dims);
  try {
    check_draft(draft);
    bytes_.assign(layout.total_bytes, std::byte{0});
    std::copy(draft.owner_of.begin(), draft.owner_of.end(), at<int32_t>(layout.owner_of));
    place_instances(draft, layout);
    place_slots(draft, layout);
  } catch (...) {
    bytes_.clear();
    throw;
  }
  seal(draft, layout);
}

// Counting sort by expert, then ascending rank inside an expert, then block ranges in that order.
void Plan::place_instances(const PlanDraft& draft, const PlanLayout& layout) {
  const int32_t num_experts = draft.dims.num_experts;
  int32_t* begin = at<int32_t>(layout.instance_begin);
  Instance* instances = at<Instance>(layout.instances);
  // While instances are filled in, begin[e + 1] is where the next one of e goes; afterwards it is
  // e's end.
  for (const DraftReplica& replica : draft.replicas) ++begin[replica.expert + 1];
  int32_t next_begin = 0;
  for (int32_t e = 0; e < num_experts; ++e) {
    const int32_t count = begin[e + 1] + 1;
    begin[e + 1] = next_begin;
    next_begin += count;
    instances[begin[e + 1]++] = {.rank = draft.owner_of[e], .slot = -1};
  }
  for (const DraftReplica& replica : draft.replicas) {
    instances[begin[replica.expert + 1]++] = {.rank = replica.rank,
                                              .num_blocks = replica.num_blocks};
  }
  for (int32_t e = 0; e < num_experts; ++e) {
    order_instances(e, draft.blocks[e], {instances + begin[e], instances + begin[e + 1]});
  }
}

void Plan::place_slots(const PlanDraft& draft, const PlanLayout& layout) {
  const int32_t s = draft.dims.replica_slots;
  const int32_t* begin = at<int32_t>(layout.instance_begin);
  Instance* instances = at<Instance>(layout.instances);
  std::fill_n(at<int32_t>(layout.slot_expert), num_slots(draft.dims), -1);
  // Residents first: they keep their slot, whatever the order of experts.
  for (const bool resident_pass : {true, false}) {
    for (int32_t e = 0; e < draft.dims.num_experts; ++e) {
      for (int32_t i = begin[e]; i < begin[e + 1]; ++i) {
        Instance& instance = instances[i];
        if (instance.rank == draft.owner_of[e]) continue;
        const size_t first_slot = static_cast<size_t>(instance.rank) * s;
        const std::span<int32_t> taken(at<int32_t>(layout.slot_expert) + first_slot, s);
        const auto held =
            draft.resident.empty() ? draft.resident : draft.resident.subspan(first_slot, s);
        const auto kept = std::find(held.begin(), held.end(), e);
        const bool is_resident = kept != held.end();
        if (is_resident != resident_pass) continue;
        instance.slot =
            is_resident ? static_cast<int32_t>(kept - held.begin()) : free_slot(taken, held);
        MF_INVARIANT(instance.slot >= 0, "rank ", instance.rank, " has more than ", s, " replicas");
        taken[instance.slot] = e;
        at<uint8_t>(layout.slot_resident)[first_slot + instance.slot] = is_resident;
      }
    }
  }
}

void Plan::seal(const PlanDraft& draft, const PlanLayout& layout) {
  PlanHeader& header = *at<PlanHeader>(0);
  header = PlanHeader{};
  header.flags = draft.flags;
  header.num_experts = draft.dims.num_experts;
  header.num_ranks = draft.dims.num_ranks;
  header.replica_slots = draft.dims.replica_slots;
  header.block_rows = draft.dims.block_rows;
  header.search_id = draft.search_id;
  header.objective = draft.objective;
  header.num_instances = at<int32_t>(layout.instance_begin)[header.num_experts];
  const auto residents = slot_resident();
  header.num_copies =
      num_replicas() - static_cast<int32_t>(std::count(residents.begin(), residents.end(), 1));
  std::array<int32_t, kMaxRanks> loads;  // on the stack: assign() does not allocate
  const std::span<int32_t> rank_blocks(loads.data(), header.num_ranks);
  blocks_per_rank(rank_blocks);
  header.max_blocks = *std::max_element(rank_blocks.begin(), rank_blocks.end());
  header.hash = computed_hash();
}

Plan Plan::from_bytes(std::span<const std::byte> bytes) {
  MF_CHECK(bytes.size() >= sizeof(PlanHeader), "plan: ", bytes.size(), " bytes, a header has ",
           sizeof(PlanHeader));
  PlanHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  MF_CHECK(header.magic == PlanHeader{}.magic, "plan: the first four bytes are not MFPL");
  MF_CHECK(header.version == PlanHeader{}.version, "plan: version ", header.version,
           ", this library reads version ", PlanHeader{}.version);
  MF_CHECK((header.flags & ~(kPlanGateRefused | kPlanFromOutside)) == 0 && header.reserved == 0,
           "plan: flags ", header.flags, " or reserved bytes ", header.reserved,
           " that version 1 does not know");
  const PlanDims dims{header.num_experts, header.num_ranks, header.replica_slots,
                      header.block_rows};
  check_dims(dims);
  const PlanLayout layout(dims);
  MF_CHECK(bytes.size() == layout.total_bytes, "plan: ", bytes.size(), " bytes, ",
           layout.total_bytes, " expected for E ", dims.num_experts, ", P ", dims.num_ranks, ", s ",
           dims.replica_slots);
  Plan plan;
  plan.bytes_.assign(bytes.begin(), bytes.end());
  plan.check_index(layout);
  plan.check_instances(layout);
  MF_CHECK(plan.computed_hash() == header.hash, "plan: hash ", header.hash,
           " does not match its content, ", plan.computed_hash());
  return plan;
}

// Every table entry that is used as an index lies inside what it points into.
void Plan::check_index(const PlanLayout& layout) const {
  const PlanHeader& h = header();
  const size_t max_instances = h.num_experts + num_slots(dims());
  const int32_t* begin = at<int32_t>(layout.instance_begin);
  MF_CHECK(begin[0] == 0 && begin[h.num_experts] == h.num_instances,
           "plan: instance_begin runs from ", begin[0], " to ", begin[h.num_experts],
           ", num_instances is ", h.num_instances);
  for (int32_t e = 0; e < h.num_experts; ++e) {
    MF_CHECK(begin[e + 1] > begin[e] && static_cast<size_t>(begin[e + 1]) <= max_instances,
             "plan: instance_begin[", e + 1, "]: ", begin[e + 1], " does not follow ", begin[e],
             " or passes the ", max_instances, " instances of the buffer");
    MF_CHECK(owner_of()[e] >= 0 && owner_of()[e] < h.num_ranks, "plan: owner_of[", e,
             "]: ", owner_of()[e], " is outside [0, ", h.num_ranks, ")");
  }
  for (size_t i = 0; i < num_slots(dims()); ++i) {
    MF_CHECK(slot_expert()[i] >= -1 && slot_expert()[i] < h.num_experts, "plan: slot_expert[", i,
             "]: ", slot_expert()[i], " is outside [-1, ", h.num_experts, ")");
    MF_CHECK(slot_resident()[i] <= 1, "plan: slot_resident[", i, "]: ", int{slot_resident()[i]},
             " is neither 0 nor 1");
  }
}

void Plan::check_instances(const PlanLayout& layout) const {
  constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
  const PlanHeader& h = header();
  const std::span<const Instance> all(at<Instance>(layout.instances),
                                      h.num_experts + num_slots(dims()));
  int64_t total_blocks = 0;
  for (const Instance& instance : all.first(h.num_instances)) {
    const auto i = &instance - all.data();
    MF_CHECK(instance.rank >= 0 && instance.rank < h.num_ranks, "plan: instance ", i, ": rank ",
             instance.rank, " is outside [0, ", h.num_ranks, ")");
    MF_CHECK(instance.slot >= -1 && instance.slot < h.replica_slots, "plan: instance ", i,
             ": slot ", instance.slot, " is outside [-1, ", h.replica_slots, ")");
    MF_CHECK(instance.first_block >= 0 && instance.num_blocks >= 0 &&
                 int64_t{instance.first_block} + instance.num_blocks <= kMaxBlocks,
             "plan: instance ", i, ": ", instance.num_blocks, " blocks from ", instance.first_block,
             " on are outside [0, ", kMaxBlocks, "]");
    total_blocks += instance.num_blocks;
  }
  MF_CHECK(total_blocks <= kMaxBlocks, "plan: ", total_blocks, " blocks, at most ", kMaxBlocks,
           " are supported");
  for (const Instance& instance : all.subspan(h.num_instances)) {
    MF_CHECK(instance == Instance{}, "plan: instance ", &instance - all.data(), " beyond the ",
             h.num_instances, " in use is not zero");
  }
}

Plan Plan::marked_from_outside() const {
  Plan copy = *this;
  copy.at<PlanHeader>(0)->flags |= kPlanFromOutside;
  return copy;
}

std::span<const int32_t> Plan::owner_of() const {
  return {at<int32_t>(PlanLayout(dims()).owner_of), static_cast<size_t>(header().num_experts)};
}

std::span<const int32_t> Plan::slot_expert() const {
  return {at<int32_t>(PlanLayout(dims()).slot_expert), num_slots(dims())};
}

std::span<const uint8_t> Plan::slot_resident() const {
  return {at<uint8_t>(PlanLayout(dims()).slot_resident), num_slots(dims())};
}

void Plan::blocks_per_rank(std::span<int32_t> blocks) const {
  std::fill(blocks.begin(), blocks.end(), 0);
  const Instance* instances = at<Instance>(PlanLayout(dims()).instances);
  for (int32_t i = 0; i < header().num_instances; ++i) {
    blocks[instances[i].rank] += instances[i].num_blocks;
  }
}

uint64_t Plan::computed_hash() const {
  Hasher hasher;
  const PlanHeader& h = header();
  for (const int32_t value : {h.num_experts, h.num_ranks, h.replica_slots, h.block_rows}) {
    hasher.add(static_cast<uint32_t>(value));
  }
  // The size of each copy is a constant, so that it is one load and not a call.
  size_t offset = sizeof(PlanHeader);
  for (; offset + 4 <= bytes_.size(); offset += 4) {
    uint32_t word;
    std::memcpy(&word, bytes_.data() + offset, 4);
    hasher.add(word);
  }
  if (offset < bytes_.size()) {
    uint32_t word = 0;  // the last word of slot_resident is padded with zeros
    std::memcpy(&word, bytes_.data() + offset, bytes_.size() - offset);
    hasher.add(word);
  }
  return hasher.value();
}

}  // namespace megaflux
