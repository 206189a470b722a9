#include "megaflux/moe/forward_context.h"

#include <utility>

#include "megaflux/base/check.h"

namespace megaflux {

struct ForwardContext::Core {
  struct Entry {
    ForwardState state;
    uint64_t generation = 0;  // grows with every release, so that old handles are recognised
    bool is_in_use = false;
  };
  std::string name;
  size_t max_contexts = 0;
  std::vector<std::unique_ptr<Entry>> entries;
};

RoutingView SavedRank::routing() const {
  return {.num_tokens = num_tokens,
          .topk = topk,
          .id_type = IdType::kInt32,
          .topk_ids = topk_ids.data(),
          .topk_weights = topk_weights.data()};
}

void SavedRank::save_routing(const RoutingView& view) {
  num_tokens = view.num_tokens;
  topk = view.topk;
  const int64_t pairs = int64_t{num_tokens} * topk;
  const int64_t valid_pairs = int64_t{view.valid_tokens()} * topk;
  topk_ids.resize(pairs);
  topk_weights.resize(pairs);
  for (int64_t i = 0; i < pairs; ++i) {
    const bool is_valid = i < valid_pairs;
    topk_ids[i] =
        is_valid ? static_cast<int32_t>(view.expert_at(i / topk, static_cast<int32_t>(i % topk)))
                 : -1;
    topk_weights[i] = is_valid ? view.topk_weights[i] : 0.0f;
  }
}

void SavedRank::reserve_routing(int32_t max_tokens, int32_t max_topk) {
  const auto pairs = static_cast<size_t>(max_tokens) * static_cast<size_t>(max_topk);
  topk_ids.reserve(pairs);
  topk_weights.reserve(pairs);
}

void SavedRank::reserve_z(int64_t bytes) {
  if (bytes <= z_capacity_bytes) return;
  z = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  z_capacity_bytes = bytes;
}

ForwardContext ForwardContext::owning() {
  return ForwardArena("own memory", 1).acquire();
}

ForwardContext& ForwardContext::operator=(ForwardContext&& other) noexcept {
  if (this != &other) {
    release();
    swap(other);
  }
  return *this;
}

void ForwardContext::swap(ForwardContext& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(entry_, other.entry_);
  std::swap(generation_, other.generation_);
  std::swap(is_consumed_, other.is_consumed_);
}

ForwardState& ForwardContext::state() {
  return const_cast<ForwardState&>(std::as_const(*this).state());
}

const ForwardState& ForwardContext::state() const {
  MF_CHECK(core_ != nullptr, "forward context: empty; it was moved from or never filled");
  MF_CHECK(!is_consumed_, "forward context: used by a backward before; each serves exactly one");
  Core::Entry& entry = *core_->entries[entry_];
  MF_CHECK(entry.generation == generation_, "forward context: its plan was freed by arena \"",
           core_->name, "\"");
  return entry.state;
}

ForwardState& ForwardContext::consume() {
  ForwardState& saved = state();
  is_consumed_ = true;
  return saved;
}

void ForwardContext::release() {
  if (core_ != nullptr) {
    Core::Entry& entry = *core_->entries[entry_];
    if (entry.generation == generation_) {
      ++entry.generation;
      entry.is_in_use = false;
    }
  }
  core_.reset();
  is_consumed_ = false;
}

ForwardArena::ForwardArena(std::string name, int32_t max_contexts)
    : core_(std::make_shared<ForwardContext::Core>()) {
  MF_CHECK(max_contexts >= 1, "max_contexts: ", max_contexts, " must be at least 1");
  core_->name = std::move(name);
  core_->max_contexts = static_cast<size_t>(max_contexts);
  core_->entries.reserve(core_->max_contexts);
}

ForwardContext ForwardArena::acquire() {
  auto& entries = core_->entries;
  size_t i = 0;
  while (i < entries.size() && entries[i]->is_in_use) ++i;
  if (i == entries.size()) {
    MF_CHECK(i < core_->max_contexts, "forward contexts: all ", i, " of arena \"", core_->name,
             "\" are in use");
    entries.push_back(std::make_unique<ForwardContext::Core::Entry>());
  }
  entries[i]->is_in_use = true;
  ForwardContext context;
  context.core_ = core_;
  context.entry_ = i;
  context.generation_ = entries[i]->generation;
  return context;
}

void ForwardArena::release_all() {
  for (auto& entry : core_->entries) {
    ++entry->generation;
    entry->is_in_use = false;
  }
}

int32_t ForwardArena::num_in_use() const {
  int32_t count = 0;
  for (const auto& entry : core_->entries) count += entry->is_in_use;
  return count;
}

}  // namespace megaflux
