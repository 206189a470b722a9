#include <algorithm>
#include <utility>

#include "megaflux/base/check_cuda.h"
#include "megaflux/comm/device_ranks_cuda.h"
#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/signal.h"

namespace megaflux {
namespace {

// A kernel posts payloads in vectors of four words.
constexpr int32_t kVectorWords = 4;
constexpr size_t kHeapAlignment = 4096;

// Places of the tables in one allocation.
struct TableLayout {
  TableLayout(size_t num_local, size_t num_ranks) {
    local = tables.add<LocalRank>("local", num_local);
    bases = tables.add<std::byte*>("bases", num_ranks);
  }
  Layout tables;
  Field<LocalRank> local;
  Field<std::byte*> bases;
};

template <typename T>
void copy_to_device(void* to, std::span<T> values) {
  if (values.empty()) return;
  MF_CUDA(cudaMemcpy(to, values.data(), values.size_bytes(), cudaMemcpyHostToDevice));
}

std::byte* allocate(size_t bytes) {
  void* memory = nullptr;
  MF_CUDA(cudaMalloc(&memory, bytes));
  return static_cast<std::byte*>(memory);
}

}  // namespace

DeviceLayout::DeviceLayout(Layout caller_layout, int32_t ranks, int32_t payload_words)
    : num_ranks(ranks),
      layout(std::move(caller_layout)),
      protocol(add_protocol_fields(layout, ranks, round_up(payload_words, kVectorWords))),
      launch(add_launch_fields(layout, ranks)) {
  MF_CHECK(layout.counters().size() <= kMaxDeviceCounters, "layout: ", layout.counters().size(),
           " counter fields with those of the protocol; devices hold up to ", kMaxDeviceCounters);
}

size_t DeviceLayout::heap_bytes() const {
  return round_up(layout.total_bytes(), kHeapAlignment);
}

DeviceRanks::DeviceRanks(int32_t device, std::vector<int32_t> ranks, const DeviceLayout& layout,
                         DeviceStatus* statuses, const WaitConfig& waits,
                         std::shared_ptr<std::byte> heaps)
    : device_(device),
      ranks_(std::move(ranks)),
      layout_(&layout),
      heap_bytes_(layout.heap_bytes()),
      heaps_(std::move(heaps)) {
  const CurrentDevice current(device_);
  if (heaps_ == nullptr) heaps_.reset(allocate(ranks_.size() * heap_bytes_), FreeDevice());
  MF_CUDA(cudaMemset(heaps_.get(), 0, ranks_.size() * heap_bytes_));
  context_.status = statuses;
  make_context(waits);
}

void DeviceRanks::make_context(const WaitConfig& waits) {
  const std::span<const CounterField> counters = layout_->layout.counters();
  const TableLayout place(ranks_.size(), layout_->num_ranks);
  tables_.reset(allocate(place.tables.total_bytes()));
  const auto at = [&](auto field) { return tables_.get() + field.offset; };
  const double scaled_ns = static_cast<double>(waits.deadline.count()) * 1e6 * waits.deadline_scale;
  context_.heap = {reinterpret_cast<std::byte* const*>(at(place.bases)), layout_->num_ranks};
  context_.local = reinterpret_cast<LocalRank*>(at(place.local));
  context_.num_local = static_cast<int32_t>(ranks_.size());
  context_.num_counters = static_cast<int32_t>(counters.size());
  std::copy(counters.begin(), counters.end(), context_.counters);
  context_.protocol = layout_->protocol;
  context_.launch = layout_->launch;
  context_.deadline_ns = static_cast<uint64_t>(scaled_ns);
}

std::byte* DeviceRanks::base(size_t local_idx) const {
  return heaps_.get() + local_idx * heap_bytes_;
}

void DeviceRanks::connect(std::span<std::byte* const> bases) {
  const CurrentDevice current(device_);
  const TableLayout place(ranks_.size(), bases.size());
  copy_to_device(tables_.get() + place.bases.offset, bases);
  const auto first = bases.first(std::min<size_t>(bases.size(), kFirstBases));
  std::copy(first.begin(), first.end(), context_.first_bases);
}

uint32_t DeviceRanks::furthest_epoch() const {
  const CurrentDevice current(device_);
  std::vector<LocalRank> local(ranks_.size());
  MF_CUDA(cudaMemcpy(local.data(), context_.local, local.size() * sizeof(LocalRank),
                     cudaMemcpyDeviceToHost));
  uint32_t furthest = local.front().launched;
  for (const LocalRank& rank : local) {
    if (is_reached(rank.launched, furthest)) furthest = rank.launched;
  }
  return furthest;
}

void DeviceRanks::reset(uint32_t epoch) {
  const CurrentDevice current(device_);
  std::vector<LocalRank> local;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    local.push_back({.base = base(i), .rank = static_cast<int16_t>(ranks_[i]), .launched = epoch});
    reset_heap(base(i), epoch);
  }
  copy_to_device(context_.local, std::span<const LocalRank>(local));
  // Copies from pageable memory may still be on their way when the call returns.
  MF_CUDA(cudaDeviceSynchronize());
}

void DeviceRanks::reset_heap(std::byte* heap, uint32_t epoch) const {
  for (const FieldInfo& field : layout_->layout.fields()) {
    if (field.kind == FieldKind::kEpochs) {
      const std::vector<uint32_t> words(field.count, epoch);
      copy_to_device(heap + field.offset, std::span<const uint32_t>(words));
    }
    if (field.kind == FieldKind::kCounters) {
      MF_CUDA(cudaMemset(heap + field.offset, 0, field.bytes()));
    }
  }
  const Field<EntryFlag> flags = layout_->launch.flags;
  const std::vector<EntryFlag> none(flags.count, {.epoch = epoch});
  copy_to_device(heap + flags.offset, std::span<const EntryFlag>(none));
  const ProtocolFields& protocol = layout_->protocol;
  MF_CUDA(cudaMemset(heap + protocol.abort.offset, 0, sizeof(uint32_t)));
  MF_CUDA(cudaMemset(heap + protocol.failures.offset, 0, kMaxRoles * sizeof(FailureRecord)));
}

}  // namespace megaflux
