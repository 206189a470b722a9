#include <algorithm>
#include <cstring>
#include <fstream>

#include "megaflux/base/hash.h"
#include "megaflux/comm/nccl_group_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"
#include "megaflux/comm/signal.h"

namespace megaflux {
namespace {

constexpr const char* kCreation = "the creation of a group";

std::chrono::milliseconds scaled(std::chrono::milliseconds deadline, const WaitConfig& waits) {
  return std::chrono::ceil<std::chrono::milliseconds>(deadline * waits.deadline_scale);
}

// What all fabrics are made with, after a look at the rest.
DeviceGroupConfig group_config_of(const NcclConfig& config) {
  const DeviceGroupConfig group = {.num_ranks = config.num_ranks,
                                   .payload_words = config.payload_words,
                                   .start_epoch = config.start_epoch,
                                   .waits = config.waits};
  checked(group);
  MF_CHECK(config.creation_deadline.count() > 0,
           "creation_deadline: ", config.creation_deadline.count(), " ms is not positive");
  MF_CHECK(config.rank >= 0 && config.rank < config.num_ranks, "rank: ", config.rank,
           " is outside [0, ", config.num_ranks, ")");
  int count = 0;
  MF_CUDA(cudaGetDeviceCount(&count));
  MF_CHECK(config.device >= 0 && config.device < count, "device: ", config.device,
           " is outside [0, ", count, "), the CUDA devices of this process");
  return group;
}

template <size_t kSize>
void copy_text(const std::string& text, char (&target)[kSize]) {
  text.copy(target, kSize - 1);
}

uint64_t hash_of(const Layout& layout) {
  Hasher hasher;
  for (const FieldInfo& field : layout.fields()) {
    for (const char letter : field.name) hasher.add(static_cast<uint32_t>(letter));
    for (const size_t value : {field.offset, field.count, field.element_bytes}) hasher.add64(value);
    hasher.add(static_cast<uint32_t>(field.kind));
  }
  return hasher.value();
}

// Differs between machines, and between one machine's boots.
std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

// What a rank says of itself at creation.
struct NcclGroup::Introduction {
  uint64_t layout_hash = 0;
  uint64_t config_hash = 0;
  uint64_t heap_bytes = 0;
  char machine[48] = {};
  char gpu[16] = {};  // UUID
  char socket[32] = {};
};

// Where a rank's memory lies in map_allocation.
struct NcclGroup::MapRequest {
  enum class Kind : uint32_t { kNone, kIpc, kDescriptor };
  RankOutcome outcome;
  uint64_t id = 0;
  uint64_t allocation_bytes = 0;
  uint64_t offset = 0;
  Kind kind = Kind::kNone;
  cudaIpcMemHandle_t handle = {};
};

struct NcclGroup::Prepared {
  NcclConfig config;
  DeviceGroupConfig group;
  NcclLibrary nccl;

  NcclMember member() const {
    return {.rank = config.rank,
            .num_ranks = config.num_ranks,
            .device = config.device,
            .deadline = scaled(config.creation_deadline, config.waits)};
  }
};

// Before anything is allocated: what a missing rank leaves behind on `comm` would keep memory from
// being freed.
NcclGroup::Prepared NcclGroup::prepare(const NcclConfig& config) {
  Prepared prepared = {config, group_config_of(config), NcclLibrary(config.library_path)};
  if (config.comm == nullptr) return prepared;
  const int32_t ranks = prepared.nccl.num_ranks_of(config.comm);
  const int32_t rank = prepared.nccl.rank_of(config.comm);
  MF_CHECK(ranks == config.num_ranks && rank == config.rank, "comm: is rank ", rank, " of ", ranks,
           ", the configuration says rank ", config.rank, " of ", config.num_ranks);
  prepared.config.unique_id = carry_id(prepared.nccl, config.comm, prepared.member());
  return prepared;
}

NcclGroup::NcclGroup(const NcclConfig& config, Layout layout)
    : NcclGroup(prepare(config), std::move(layout)) {}

NcclGroup::NcclGroup(const Prepared& prepared, Layout layout)
    : DeviceGroup(prepared.group, 1, std::move(layout)),
      config_(prepared.config),
      nccl_(prepared.nccl),
      channel_(nccl_, config_.unique_id, prepared.member()),
      descriptors_(scaled(config_.waits.deadline, config_.waits)),
      peer_heaps_(config_.num_ranks) {
  UniqueFd own;
  channel_.agree(outcome_of([&] {
                   heap_ = allocate_shared(config_.device, device_layout().heap_bytes());
                   add_device(config_.device, {config_.rank}, heap_);
                   own = export_fd(heap_.get());
                 }),
                 kCreation);
  introduce(own);
  channel_.set_deadline(scaled(config_.waits.deadline, config_.waits));
}

NcclGroup::~NcclGroup() {
  const CurrentDevice current(config_.device, std::nothrow);
  cudaDeviceSynchronize();  // nothing here uses a peer's heap any more
}

void NcclGroup::introduce(const UniqueFd& own) {
  Introduction mine = {
      .layout_hash = hash_of(layout()),
      .config_hash = config_.config_hash,
      .heap_bytes = shared_memory_bytes(config_.device, device_layout().heap_bytes())};
  cudaDeviceProp properties = {};
  MF_CUDA(cudaGetDeviceProperties(&properties, config_.device));
  std::memcpy(mine.gpu, properties.uuid.bytes, sizeof(mine.gpu));
  copy_text(machine_id(), mine.machine);
  copy_text(descriptors_.name(), mine.socket);
  const std::vector<Introduction> all = channel_.gather(mine, kCreation);
  check_introductions(all);
  channel_.agree(outcome_of([&] { connect_heaps(all, own); }), kCreation);
}

void NcclGroup::connect_heaps(const std::vector<Introduction>& all, const UniqueFd& own) {
  for (const Introduction& one : all) sockets_.emplace_back(one.socket);
  const std::vector<bool> has_fd(all.size(), true);
  const std::vector<UniqueFd> fds = exchange_fds(has_fd, own);
  std::vector<std::byte*> bases(all.size());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    if (rank != config_.rank) {
      peer_heaps_[rank] = map_fd(config_.device, fds[rank], all[rank].heap_bytes);
    }
    bases[rank] = rank == config_.rank ? base(0, 0) : peer_heaps_[rank].get();
  }
  devices().front().connect(bases);
}

// All ranks hold the same introductions, and so throw the same.
void NcclGroup::check_introductions(const std::vector<Introduction>& all) const {
  const Introduction& first = all.front();
  for (int32_t rank = 1; rank < num_ranks(); ++rank) {
    const Introduction& one = all[rank];
    if (std::strcmp(one.machine, first.machine) != 0) {
      throw_error(ErrorCode::kUnsupported, "ranks 0 and ", rank,
                  " are on two machines; the ranks of a group share the memory of one");
    }
    if (one.layout_hash != first.layout_hash) {
      throw_error(ErrorCode::kDisagree, "ranks disagree: rank ", rank,
                  " makes the group with another layout than rank 0");
    }
    if (one.config_hash != first.config_hash) {
      throw_error(ErrorCode::kDisagree, "ranks disagree: rank ", rank,
                  " makes the group with config hash ", one.config_hash, ", rank 0 with ",
                  first.config_hash);
    }
    for (int32_t other = 0; other < rank; ++other) {
      if (std::memcmp(one.gpu, all[other].gpu, sizeof(one.gpu)) != 0) continue;
      throw_error(ErrorCode::kUnsupported, "ranks ", other, " and ", rank,
                  " are on one GPU; two processes there take turns, and each would wait for the "
                  "other until its deadline");
    }
  }
}

std::vector<UniqueFd> NcclGroup::exchange_fds(const std::vector<bool>& has_fd,
                                              const UniqueFd& own) {
  ++num_exchanges_;
  std::vector<UniqueFd> fds(has_fd.size());
  for (int32_t step = 1; step < num_ranks(); ++step) {
    const int32_t to = (config_.rank + step) % num_ranks();
    const int32_t from = (config_.rank + num_ranks() - step) % num_ranks();
    if (has_fd[config_.rank]) {
      descriptors_.send(sockets_[to], static_cast<uint32_t>(config_.rank), num_exchanges_,
                        own.get());
    }
    // One in for each one out, from whomever, so that no queue runs full.
    if (!has_fd[from]) continue;
    FdExchange::Received received = descriptors_.receive();
    // Those of an exchange that failed may still lie there.
    while (received.tag != num_exchanges_) received = descriptors_.receive();
    MF_INVARIANT(received.sender < fds.size(), "a descriptor from rank ", received.sender);
    fds[received.sender] = std::move(received.fd);
  }
  return fds;
}

std::vector<std::byte*> NcclGroup::map_allocation(void* memory, size_t bytes) {
  constexpr const char* kStep = "map_allocation";
  MapRequest mine;
  UniqueFd own;
  mine.outcome = outcome_of([&] {
    if (memory != nullptr) mine = request_for(memory, bytes);
    if (mine.kind == MapRequest::Kind::kDescriptor) {
      own = export_fd(static_cast<const std::byte*>(memory));
    }
  });
  const std::vector<MapRequest> all = channel_.gather(mine, kStep);
  std::vector<RankOutcome> outcomes;
  for (const MapRequest& request : all) outcomes.push_back(request.outcome);
  throw_first_failure(outcomes, kStep);
  // All ranks have the same view of what is new, so all meet again or none.
  if (has_unmapped(all)) {
    Mappings fresh;
    channel_.agree(outcome_of([&] { fresh = map_unmapped(all, own); }), kStep);
    mapped_.merge(fresh);
  }
  std::vector<std::byte*> places(all.size());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const MapRequest& request = all[rank];
    if (request.kind == MapRequest::Kind::kNone) continue;
    places[rank] = rank == config_.rank ? static_cast<std::byte*>(memory)
                                        : mapped_.at({rank, request.id}).get() + request.offset;
  }
  return places;
}

std::vector<std::byte*> NcclGroup::map_ranges(std::span<const MemoryRange> local) {
  MF_CHECK(local.size() == 1, "ranges: ", local.size(), " given, this process has one rank");
  return map_allocation(local[0].data, local[0].bytes);
}

bool NcclGroup::is_unmapped(int32_t rank, const MapRequest& request) const {
  return request.kind != MapRequest::Kind::kNone && !mapped_.contains({rank, request.id});
}

bool NcclGroup::has_unmapped(const std::vector<MapRequest>& all) const {
  bool any = false;
  for (int32_t rank = 0; rank < num_ranks(); ++rank) any |= is_unmapped(rank, all[rank]);
  return any;
}

NcclGroup::Mappings NcclGroup::map_unmapped(const std::vector<MapRequest>& all,
                                            const UniqueFd& own) {
  std::vector<bool> has_fd(all.size());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    has_fd[rank] = is_unmapped(rank, all[rank]) && all[rank].kind == MapRequest::Kind::kDescriptor;
  }
  const bool has_any = std::find(has_fd.begin(), has_fd.end(), true) != has_fd.end();
  std::vector<UniqueFd> fds(all.size());
  if (has_any) fds = exchange_fds(has_fd, own);
  Mappings fresh;
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const MapRequest& request = all[rank];
    if (!is_unmapped(rank, request)) continue;
    // This rank's own counts as mapped too, so that all ranks agree on what is still to be sent.
    auto& place = fresh[{rank, request.id}];
    if (rank == config_.rank) continue;
    place = request.kind == MapRequest::Kind::kIpc
                ? map_ipc(config_.device, request.handle)
                : map_fd(config_.device, fds[rank], request.allocation_bytes);
  }
  return fresh;
}

NcclGroup::MapRequest NcclGroup::request_for(void* memory, size_t bytes) const {
  const Allocation allocation = allocation_of(memory);
  MF_CHECK(allocation.device == config_.device, "memory: ", memory, " lies on device ",
           allocation.device, ", the rank on device ", config_.device);
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(memory) - allocation.base);
  MF_CHECK(offset + bytes <= allocation.bytes, "memory: ", bytes, " bytes from offset ", offset,
           " do not lie in one allocation, which holds ", allocation.bytes);
  MapRequest request;
  request.id = allocation.id;
  request.allocation_bytes = allocation.bytes;
  request.offset = offset;
  MF_CHECK(
      allocation.kind != MemoryKind::kPool, "memory: ", memory,
      " comes from a pool (cudaMallocAsync), which other processes cannot map; take cudaMalloc, "
      "or virtual memory made for descriptors");
  const bool has_ipc = allocation.kind == MemoryKind::kMalloc;
  request.kind = has_ipc ? MapRequest::Kind::kIpc : MapRequest::Kind::kDescriptor;
  if (has_ipc) MF_CUDA(cudaIpcGetMemHandle(&request.handle, allocation.base));
  return request;
}

void NcclGroup::recover() {
  const std::vector<uint32_t> epochs = channel_.gather(stop(), "recover()");
  uint32_t furthest = epochs.front();
  for (const uint32_t epoch : epochs) {
    if (is_reached(epoch, furthest)) furthest = epoch;
  }
  restart(furthest + kRecoveryStep);
  // Nobody launches, and so posts, before all have reset their words.
  channel_.gather(uint32_t{0}, "recover()");
}

}  // namespace megaflux
