#include "megaflux/moe/plan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "megaflux/base/check.h"
#include "megaflux/base/hash.h"

namespace megaflux {
namespace {

static_assert(std::endian::native == std::endian::little, "plan buffers are little-endian");

size_t num_slots(const PlanDims& dims) {
  return static_cast<size_t>(dims.num_ranks) * dims.replica_slots;
}

}  // namespace

void check_dims(const PlanDims& dims) {
  MF_CHECK(dims.num_experts >= 1 && dims.num_experts <= 4096, "num_experts: ", dims.num_experts,
           " is outside [1, 4096]");
  MF_CHECK(dims.num_ranks >= 1 && dims.num_ranks <= 1024, "num_ranks: ", dims.num_ranks,
           " is outside [1, 1024]");
  MF_CHECK(dims.replica_slots >= 0 && dims.replica_slots <= 1024, "replica_slots: ",
           dims.replica_slots, " is outside [0, 1024]");
  MF_CHECK(dims.block_rows >= 1 && dims.block_rows <= (1 << 20), "block_rows: ", dims.block_rows,
           " is outside [1, ", 1 << 20, "]");
}

PlanLayout::PlanLayout(const PlanDims& dims) {
  size_t offset = sizeof(PlanHeader);
  const auto field = [&offset](size_t count, size_t element_bytes) {
    const size_t begin = offset;
    offset += count * element_bytes;
    return begin;
  };
  const size_t experts = dims.num_experts;
  owner_of = field(experts, sizeof(int32_t));
  instance_begin = field(experts + 1, sizeof(int32_t));
  instances = field(experts + num_slots(dims), sizeof(Instance));
  slot_expert = field(num_slots(dims), sizeof(int32_t));
  slot_resident = field(num_slots(dims), sizeof(uint8_t));
  total_bytes = offset;
}

void Plan::assign(const PlanDraft& draft) {
  const PlanLayout layout(draft.dims);
  bytes_.assign(layout.total_bytes, std::byte{0});
  std::copy(draft.owner_of.begin(), draft.owner_of.end(), at<int32_t>(layout.owner_of));
  place_instances(draft, layout);
  place_slots(draft, layout);
  seal(draft);
}

// Counting sort by expert, insertion by rank inside an expert, then block ranges in ascending rank order.
void Plan::place_instances(const PlanDraft& draft, const PlanLayout& layout) {
  const int32_t num_experts = draft.dims.num_experts;
  int32_t* begin = at<int32_t>(layout.instance_begin);
  Instance* instances = at<Instance>(layout.instances);
  for (const DraftReplica& replica : draft.replicas) ++begin[replica.expert + 1];
  for (int32_t e = 0; e < num_experts; ++e) begin[e + 1] += begin[e] + 1;
  MF_INVARIANT(draft.replicas.size() <= num_slots(draft.dims), draft.replicas.size(),
               " replicas for ", num_slots(draft.dims), " slots");
  // num_blocks = -1 marks an entry that is still free.
  for (int32_t i = 0; i < begin[num_experts]; ++i) instances[i].num_blocks = -1;
  const auto insert = [&](int32_t expert, Instance entry) {
    int32_t i = begin[expert];
    while (instances[i].num_blocks >= 0 && instances[i].rank < entry.rank) ++i;
    for (; entry.num_blocks >= 0; ++i) std::swap(instances[i], entry);
  };
  for (int32_t e = 0; e < num_experts; ++e) {
    insert(e, {.rank = draft.owner_of[e], .slot = -1, .num_blocks = draft.blocks[e]});
  }
  for (const DraftReplica& replica : draft.replicas) {
    insert(replica.expert, {.rank = replica.rank, .slot = 0, .num_blocks = replica.num_blocks});
    for (int32_t i = begin[replica.expert]; i < begin[replica.expert + 1]; ++i) {
      if (instances[i].slot == -1 && instances[i].num_blocks >= 0) {
        instances[i].num_blocks -= replica.num_blocks;
        MF_INVARIANT(instances[i].num_blocks >= 0, "expert ", replica.expert,
                     ": replicas hold more than its ", draft.blocks[replica.expert], " blocks");
      }
    }
  }
  for (int32_t e = 0; e < num_experts; ++e) {
    int32_t next = 0;
    for (int32_t i = begin[e]; i < begin[e + 1]; ++i) {
      instances[i].first_block = next;
      next += instances[i].num_blocks;
    }
  }
}

void Plan::place_slots(const PlanDraft& draft, const PlanLayout& layout) {
  const int32_t s = draft.dims.replica_slots;
  const int32_t* begin = at<int32_t>(layout.instance_begin);
  Instance* instances = at<Instance>(layout.instances);
  int32_t* slot_expert = at<int32_t>(layout.slot_expert);
  uint8_t* slot_resident = at<uint8_t>(layout.slot_resident);
  std::fill_n(slot_expert, num_slots(draft.dims), -1);
  const auto held = [&](int32_t rank, int32_t slot) {
    return draft.resident.empty() ? -1 : draft.resident[static_cast<size_t>(rank) * s + slot];
  };
  const auto place = [&](int32_t expert, Instance& instance, int32_t slot, bool is_resident) {
    instance.slot = slot;
    slot_expert[instance.rank * s + slot] = expert;
    slot_resident[instance.rank * s + slot] = is_resident;
  };
  // Residents first: they keep their slot, whatever the order of experts.
  for (const bool resident_pass : {true, false}) {
    for (int32_t e = 0; e < draft.dims.num_experts; ++e) {
      for (int32_t i = begin[e]; i < begin[e + 1]; ++i) {
        Instance& instance = instances[i];
        if (instance.rank == draft.owner_of[e]) continue;
        int32_t kept = 0;
        while (kept < s && held(instance.rank, kept) != e) ++kept;
        if (resident_pass) {
          if (kept < s) place(e, instance, kept, true);
          continue;
        }
        if (kept < s) continue;
        int32_t chosen = -1;
        for (int32_t slot = s - 1; slot >= 0; --slot) {
          if (slot_expert[instance.rank * s + slot] >= 0) continue;
          if (chosen < 0 || held(instance.rank, slot) < 0 || held(instance.rank, chosen) >= 0) {
            chosen = slot;
          }
        }
        MF_INVARIANT(chosen >= 0, "rank ", instance.rank, " has more than ", s, " replicas");
        place(e, instance, chosen, false);
      }
    }
  }
}

void Plan::seal(const PlanDraft& draft) {
  PlanHeader& header = *at<PlanHeader>(0);
  header = PlanHeader{};
  header.flags = draft.flags;
  header.num_experts = draft.dims.num_experts;
  header.num_ranks = draft.dims.num_ranks;
  header.replica_slots = draft.dims.replica_slots;
  header.block_rows = draft.dims.block_rows;
  header.search_id = draft.search_id;
  header.objective = draft.objective;
  const PlanLayout layout(draft.dims);
  header.num_instances = at<int32_t>(layout.instance_begin)[header.num_experts];
  for (size_t i = 0; i < num_slots(draft.dims); ++i) {
    header.num_copies += slot_expert()[i] >= 0 && slot_resident()[i] == 0;
  }
  // One pass per rank-sized array would allocate; P is small against E, so count by rank in place.
  std::vector<int32_t> blocks(header.num_ranks, 0);
  blocks_per_rank(blocks);
  header.max_blocks = *std::max_element(blocks.begin(), blocks.end());
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
  const PlanDims dims{header.num_experts, header.num_ranks, header.replica_slots,
                      header.block_rows};
  check_dims(dims);
  const PlanLayout layout(dims);
  MF_CHECK(bytes.size() == layout.total_bytes, "plan: ", bytes.size(), " bytes, ",
           layout.total_bytes, " expected for E ", dims.num_experts, ", P ", dims.num_ranks, ", s ",
           dims.replica_slots);
  Plan plan;
  plan.bytes_.assign(bytes.begin(), bytes.end());
  const int32_t* begin = plan.at<int32_t>(layout.instance_begin);
  MF_CHECK(begin[0] == 0 && begin[dims.num_experts] == header.num_instances,
           "plan: instance_begin does not span num_instances: ", header.num_instances);
  for (int32_t e = 0; e < dims.num_experts; ++e) {
    MF_CHECK(begin[e + 1] > begin[e] &&
                 static_cast<size_t>(begin[e + 1]) <= dims.num_experts + num_slots(dims),
             "plan: instance_begin[", e + 1, "]: ", begin[e + 1], " does not follow ", begin[e],
             " or passes the ", dims.num_experts + num_slots(dims), " instances of the buffer");
  }
  MF_CHECK(plan.computed_hash() == header.hash, "plan: hash ", header.hash,
           " does not match its content, ", plan.computed_hash());
  return plan;
}

Plan Plan::marked_from_outside() const {
  Plan copy = *this;
  copy.at<PlanHeader>(0)->flags |= kPlanFromOutside;
  return copy;
}

PlanDims Plan::dims() const {
  const PlanHeader& h = header();
  return {h.num_experts, h.num_ranks, h.replica_slots, h.block_rows};
}

std::span<const int32_t> Plan::owner_of() const {
  return {at<int32_t>(PlanLayout(dims()).owner_of), static_cast<size_t>(header().num_experts)};
}

std::span<const Instance> Plan::instances_of(int32_t expert) const {
  const PlanLayout layout(dims());
  const int32_t* begin = at<int32_t>(layout.instance_begin);
  return {at<Instance>(layout.instances) + begin[expert],
          static_cast<size_t>(begin[expert + 1] - begin[expert])};
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
  for (size_t offset = sizeof(PlanHeader); offset < bytes_.size(); offset += 4) {
    uint32_t word = 0;  // the last word of slot_resident is padded with zeros
    std::memcpy(&word, bytes_.data() + offset, std::min<size_t>(4, bytes_.size() - offset));
    hasher.add(word);
  }
  return hasher.value();
}

}  // namespace megaflux
