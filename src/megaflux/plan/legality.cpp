#include "megaflux/plan/legality.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "megaflux/base/check.h"

namespace megaflux {
namespace {

// Sink of is_legal: remembers that something was wrong, builds no words.
struct Verdict {
  bool legal = true;
  template <typename... Parts>
  void add(const Parts&...) {
    legal = false;
  }
  bool wants_more() const { return legal; }
};

// Sink of check_plan: one sentence a violation.
struct Report {
  std::vector<std::string> violations;
  template <typename... Parts>
  void add(const Parts&... parts) {
    std::ostringstream words;
    (words << ... << parts);
    violations.push_back(words.str());
  }
  static bool wants_more() { return true; }
};

// One walk over a plan for both forms of the check.
template <typename Sink>
class Checker {
 public:
  Checker(const Plan& plan, const LoadTable& loads, const PlanConfig& config,
          std::span<const int32_t> resident, Sink& sink)
      : plan_(plan), loads_(loads), config_(config), resident_(resident), sink_(sink) {}

  void run() {
    if (!check_extent()) return;
    check_owners();
    for (int32_t e = 0; e < dims_.num_experts && sink_.wants_more(); ++e) check_expert(e);
    if (sink_.wants_more()) check_slots();
    if (sink_.wants_more()) check_header();
  }

 private:
  // False if the rest of the walk would compare tables of different sizes.
  bool check_extent() {
    if (plan_.empty()) {
      sink_.add("the plan is empty");
      return false;
    }
    dims_ = plan_.dims();
    owner_of_ = plan_.owner_of();
    slot_expert_ = plan_.slot_expert();
    slot_resident_ = plan_.slot_resident();
    const PlanDims& want = config_.dims;
    if (dims_.num_experts != want.num_experts || dims_.num_ranks != want.num_ranks ||
        dims_.replica_slots != want.replica_slots) {
      sink_.add("the plan is for E ", dims_.num_experts, ", P ", dims_.num_ranks, ", s ",
                dims_.replica_slots, ", the configuration has E ", want.num_experts, ", P ",
                want.num_ranks, ", s ", want.replica_slots);
      return false;
    }
    if (loads_.num_experts() != dims_.num_experts || loads_.num_ranks() != dims_.num_ranks) {
      sink_.add("the loads have E ", loads_.num_experts(), ", P ", loads_.num_ranks(),
                ", the plan has E ", dims_.num_experts, ", P ", dims_.num_ranks);
      return false;
    }
    check_tables();
    return true;
  }

  void check_tables() const {
    const auto size = [](const char* name, size_t given, size_t expected) {
      MF_CHECK(given == 0 || given == expected, name, ": ", given, " entries, ", expected,
               " expected");
    };
    size("owner_of", config_.owner_of.size(), dims_.num_experts);
    size("domain_of", config_.domain_of.size(), dims_.num_ranks);
    size("active", config_.active.size(), dims_.num_ranks);
    size("resident", resident_.size(), slot_expert_.size());
  }

  void check_owners() {
    // The contiguous table, walked instead of built: the first E mod P ranks own one expert more.
    int32_t rank = -1;
    int32_t left = 0;
    for (int32_t e = 0; e < dims_.num_experts && sink_.wants_more(); ++e) {
      int32_t want = 0;
      if (config_.owner_of.empty()) {
        while (left == 0) {
          ++rank;
          left = dims_.num_experts / dims_.num_ranks + (rank < dims_.num_experts % dims_.num_ranks);
        }
        --left;
        want = rank;
      } else {
        want = config_.owner_of[e];
      }
      const int32_t owner = owner_of_[e];
      if (owner != want) {
        sink_.add("expert ", e, ": owner ", owner, " in the plan, ", want, " in the configuration");
      }
    }
  }

  void check_expert(int32_t e) {
    const int32_t owner = owner_of_[e];
    const int32_t rows = loads_.totals()[e];
    const std::span<const Instance> instances = plan_.instances_of(e);
    if (rows > 0 && !is_active(owner)) {
      sink_.add("expert ", e, ": orphan, ", rows, " rows for an expert whose owner ", owner,
                " is inactive");
    }
    if (rows == 0 && instances.size() > 1) {
      sink_.add("expert ", e, ": ", instances.size() - 1, " replicas, but no rows");
    }
    int64_t next_block = 0;
    int32_t last_rank = -1;
    bool owner_listed = false;
    for (const Instance& instance : instances) {
      if (instance.rank == last_rank) {
        sink_.add("expert ", e, ": two instances on rank ", instance.rank);
      } else if (instance.rank < last_rank) {
        sink_.add("expert ", e, ": rank ", instance.rank, " stands after rank ", last_rank,
                  "; instances are in ascending rank order");
      }
      last_rank = instance.rank;
      if (instance.first_block != next_block) {
        sink_.add("expert ", e, ": rank ", instance.rank, " begins at block ", instance.first_block,
                  ", the instances before it end at ", next_block);
      }
      next_block = int64_t{instance.first_block} + instance.num_blocks;
      owner_listed |= instance.slot < 0 && instance.rank == owner;
      check_place(e, owner, instance);
      rank_blocks_[instance.rank] += instance.num_blocks;
    }
    if (!owner_listed) {
      sink_.add("expert ", e, ": its owner ", owner, " is not among its instances");
    }
    // next_block = ceil(rows / block_rows), without a division in the walk.
    const int64_t covered = next_block * dims_.block_rows;
    if (covered < rows || covered - dims_.block_rows >= rows) {
      sink_.add("expert ", e, ": ", next_block, " blocks given out, ",
                loads_.blocks(e, dims_.block_rows), " hold its ", rows, " rows");
    }
  }

  void check_place(int32_t e, int32_t owner, const Instance& instance) {
    if (instance.slot < 0) {
      if (instance.rank != owner) {
        sink_.add("expert ", e, ": on rank ", instance.rank, " without a slot, its owner is ",
                  owner);
      }
      return;
    }
    ++num_replicas_;
    if (instance.rank == owner) {
      sink_.add("expert ", e, ": replica in slot ", instance.slot, " of its own owner, rank ",
                owner);
    }
    if (!is_active(instance.rank)) {
      sink_.add("expert ", e, ": replica on rank ", instance.rank, ", which is inactive");
    }
    if (domain(instance.rank) != domain(owner)) {
      sink_.add("expert ", e, ": replica on rank ", instance.rank, " of domain ",
                domain(instance.rank), ", its owner ", owner, " is in domain ", domain(owner));
    }
    const int32_t held = slot_expert_[slot_index(instance.rank, instance.slot)];
    if (held != e) {
      sink_.add("expert ", e, ": replica in slot ", instance.slot, " of rank ", instance.rank,
                ", which slot_expert gives to ", held);
    }
  }

  // Every replica has a slot of its own that names its expert, so equal counts mean no stray slot.
  void check_slots() {
    int32_t filled = 0;
    for (int32_t rank = 0; rank < dims_.num_ranks; ++rank) {
      for (int32_t slot = 0; slot < dims_.replica_slots; ++slot) {
        const size_t i = slot_index(rank, slot);
        const int32_t e = slot_expert_[i];
        filled += e >= 0;
        if (slot_resident_[i] == 0) {
          num_copies_ += e >= 0;
          continue;
        }
        const int32_t held = resident_.empty() ? -1 : resident_[i];
        if (e < 0 || held != e) {
          sink_.add("rank ", rank, ", slot ", slot, ": expert ", e,
                    " is marked resident, the slot holds ", held);
        }
      }
    }
    if (filled != num_replicas_) {
      sink_.add("slot_expert: ", filled, " slots are filled, the instances have ", num_replicas_,
                " replicas");
    }
  }

  void check_header() {
    const PlanHeader& header = plan_.header();
    const int64_t max_blocks =
        *std::max_element(rank_blocks_.begin(), rank_blocks_.begin() + dims_.num_ranks);
    if (header.max_blocks != max_blocks) {
      sink_.add("header: max_blocks ", header.max_blocks, ", the largest load is ", max_blocks);
    }
    if (header.num_copies != num_copies_) {
      sink_.add("header: num_copies ", header.num_copies, ", ", num_copies_,
                " replicas are not resident");
    }
    if (header.num_instances != dims_.num_experts + num_replicas_) {
      sink_.add("header: num_instances ", header.num_instances, ", E ", dims_.num_experts, " and ",
                num_replicas_, " replicas");
    }
    if ((header.flags & kPlanGateRefused) != 0 && num_replicas_ > 0) {
      sink_.add("header: a gate refused replication, but there are ", num_replicas_, " replicas");
    }
  }

  bool is_active(int32_t rank) const { return config_.active.empty() || config_.active[rank] != 0; }
  int32_t domain(int32_t rank) const {
    return config_.domain_of.empty() ? 0 : config_.domain_of[rank];
  }
  size_t slot_index(int32_t rank, int32_t slot) const {
    return static_cast<size_t>(rank) * dims_.replica_slots + slot;
  }

  const Plan& plan_;
  const LoadTable& loads_;
  const PlanConfig& config_;
  std::span<const int32_t> resident_;
  Sink& sink_;
  PlanDims dims_;
  std::span<const int32_t> owner_of_;
  std::span<const int32_t> slot_expert_;
  std::span<const uint8_t> slot_resident_;
  int32_t num_replicas_ = 0;
  int32_t num_copies_ = 0;
  std::array<int64_t, kMaxRanks> rank_blocks_ = {};
};

}  // namespace

std::vector<std::string> check_plan(const Plan& plan, const LoadTable& loads,
                                    const PlanConfig& config, std::span<const int32_t> resident) {
  Report report;
  Checker<Report>(plan, loads, config, resident, report).run();
  if (!plan.empty() && plan.computed_hash() != plan.hash()) {
    report.add("header: hash ", plan.hash(), ", the content has ", plan.computed_hash());
  }
  return std::move(report.violations);
}

bool is_legal(const Plan& plan, const LoadTable& loads, const PlanConfig& config,
              std::span<const int32_t> resident) {
  Verdict verdict;
  Checker<Verdict>(plan, loads, config, resident, verdict).run();
  return verdict.legal;
}

Plan adopt_plan(std::span<const std::byte> bytes, const LoadTable& loads, const PlanConfig& config,
                std::span<const int32_t> resident) {
  constexpr size_t kShown = 3;
  const Plan plan = Plan::from_bytes(bytes);
  const std::vector<std::string> violations = check_plan(plan, loads, config, resident);
  if (!violations.empty()) {
    std::string words;
    for (size_t i = 0; i < std::min(violations.size(), kShown); ++i) {
      words += (i == 0 ? "" : "; ") + violations[i];
    }
    if (violations.size() > kShown) {
      words += "; and " + std::to_string(violations.size() - kShown) + " more";
    }
    throw_error(ErrorCode::kBadInput, "plan from outside is not legal: ", words);
  }
  return plan.marked_from_outside();
}

}  // namespace megaflux
