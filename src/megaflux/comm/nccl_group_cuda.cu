#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <type_traits>

#include "megaflux/base/hash.h"
#include "megaflux/comm/nccl_group_cuda.h"
#include "megaflux/comm/shared_memory_cuda.h"
#include "megaflux/comm/signal.h"

namespace megaflux {
namespace {

using Clock = std::chrono::steady_clock;

// Longest record that ranks exchange.
constexpr size_t kRecordBytes = 256;

std::chrono::milliseconds scaled_deadline(const WaitConfig& waits) {
  return std::chrono::ceil<std::chrono::milliseconds>(waits.deadline * waits.deadline_scale);
}

// What all fabrics are made with, after a look at the rest.
DeviceGroupConfig group_config_of(const NcclConfig& config) {
  const DeviceGroupConfig group = {.num_ranks = config.num_ranks,
                                   .payload_words = config.payload_words,
                                   .start_epoch = config.start_epoch,
                                   .waits = config.waits};
  checked(group);
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
  enum class Kind : uint32_t { kNone, kIpc, kDescriptor, kRefused };
  uint64_t id = 0;
  uint64_t allocation_bytes = 0;
  uint64_t offset = 0;
  Kind kind = Kind::kNone;
  cudaIpcMemHandle_t handle = {};
};

NcclGroup::NcclGroup(const NcclConfig& config, Layout layout)
    : DeviceGroup(group_config_of(config), 1, std::move(layout)),
      config_(config),
      nccl_(config.library_path),
      descriptors_(scaled_deadline(config.waits)),
      heap_(allocate_shared(config.device, device_layout().heap_bytes())),
      peer_heaps_(config.num_ranks) {
  add_device(config_.device, {config_.rank}, heap_);
  const CurrentDevice current(config_.device);
  if (config_.comm != nullptr) {
    const int32_t ranks = nccl_.num_ranks_of(config_.comm);
    const int32_t rank = nccl_.rank_of(config_.comm);
    MF_CHECK(ranks == config_.num_ranks && rank == config_.rank, "comm: is rank ", rank, " of ",
             ranks, ", the configuration says rank ", config_.rank, " of ", config_.num_ranks);
  }
  void* scratch = nullptr;
  MF_CUDA(cudaMalloc(&scratch, (config_.num_ranks + 1) * kRecordBytes));
  scratch_.reset(static_cast<std::byte*>(scratch), cudaFree);
  comm_ = config_.comm != nullptr
              ? config_.comm
              : nccl_.make_comm(config_.unique_id, config_.num_ranks, config_.rank);
  try {
    introduce();
  } catch (...) {
    release_comm();
    throw;
  }
}

NcclGroup::~NcclGroup() {
  {
    const CurrentDevice current(config_.device);
    cudaDeviceSynchronize();  // nothing here uses a peer's heap any more
  }
  release_comm();
}

void NcclGroup::release_comm() {
  // Aborting one waits for nobody, destroying one may wait for peers.
  if (comm_ != nullptr && config_.comm == nullptr) nccl_.abort_comm(comm_);
  comm_ = nullptr;
}

void NcclGroup::gather_bytes(const void* mine, void* all, size_t bytes, const char* purpose) {
  MF_INVARIANT(bytes <= kRecordBytes, bytes, " bytes to gather");
  MF_CHECK(comm_ != nullptr, purpose, ": the communicator was broken off when a rank was missing");
  const CurrentDevice current(config_.device);
  std::byte* const received = scratch_.get() + kRecordBytes;
  MF_CUDA(cudaMemcpyAsync(scratch_.get(), mine, bytes, cudaMemcpyHostToDevice, stream(0)));
  nccl_.all_gather(scratch_.get(), received, bytes, comm_,
                   reinterpret_cast<NcclStream*>(stream(0)));
  const Clock::time_point begin = Clock::now();
  const std::chrono::milliseconds deadline = scaled_deadline(config_.waits);
  cudaError_t status = cudaStreamQuery(stream(0));
  while (status == cudaErrorNotReady) {
    if (Clock::now() - begin > deadline) {
      release_comm();
      throw_error(ErrorCode::kTimeout, "rank ", config_.rank, " waited ", deadline.count(),
                  " ms for all ranks in ", purpose, ": a rank is missing or stuck");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    status = cudaStreamQuery(stream(0));
  }
  check_cuda(status, purpose);
  MF_CUDA(cudaMemcpy(all, received, bytes * config_.num_ranks, cudaMemcpyDeviceToHost));
}

template <typename T>
std::vector<T> NcclGroup::gather(const T& mine, const char* purpose) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kRecordBytes);
  std::vector<T> all(config_.num_ranks);
  gather_bytes(&mine, all.data(), sizeof(T), purpose);
  return all;
}

void NcclGroup::introduce() {
  Introduction mine = {
      .layout_hash = hash_of(layout()),
      .config_hash = config_.config_hash,
      .heap_bytes = shared_memory_bytes(config_.device, device_layout().heap_bytes())};
  cudaDeviceProp properties = {};
  MF_CUDA(cudaGetDeviceProperties(&properties, config_.device));
  std::memcpy(mine.gpu, properties.uuid.bytes, sizeof(mine.gpu));
  copy_text(machine_id(), mine.machine);
  copy_text(descriptors_.name(), mine.socket);
  const std::vector<Introduction> all = gather(mine, "the creation of a group");
  check_introductions(all);
  for (const Introduction& one : all) sockets_.emplace_back(one.socket);
  const std::vector<bool> has_fd(all.size(), true);
  const std::vector<UniqueFd> fds = exchange_fds(has_fd, heap_.get());
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
                                              const std::byte* memory) {
  ++num_exchanges_;
  std::vector<UniqueFd> fds(has_fd.size());
  UniqueFd own;
  if (has_fd[config_.rank]) own = export_fd(memory);
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
    MF_INVARIANT(received.tag == num_exchanges_ && received.sender < fds.size(),
                 "a descriptor of exchange ", received.tag, " from rank ", received.sender);
    fds[received.sender] = std::move(received.fd);
  }
  return fds;
}

std::vector<std::byte*> NcclGroup::map_allocation(void* memory, size_t bytes) {
  using Kind = MapRequest::Kind;
  MapRequest mine;
  std::optional<Error> refusal;
  try {
    if (memory != nullptr) mine = request_for(memory, bytes);
  } catch (const Error& error) {
    refusal = error;
    mine.kind = Kind::kRefused;
  }
  const std::vector<MapRequest> all = gather(mine, "map_allocation");
  if (refusal) throw *refusal;
  std::vector<bool> has_fd(all.size());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    MF_CHECK(all[rank].kind != Kind::kRefused, "map_allocation: rank ", rank,
             " gave memory that cannot be mapped; its own error says why");
    has_fd[rank] = all[rank].kind == Kind::kDescriptor && !mapped_.contains({rank, all[rank].id});
  }
  const bool has_any = std::find(has_fd.begin(), has_fd.end(), true) != has_fd.end();
  std::vector<UniqueFd> fds(all.size());
  if (has_any) fds = exchange_fds(has_fd, static_cast<const std::byte*>(memory));
  std::vector<std::byte*> places(all.size());
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const MapRequest& request = all[rank];
    if (request.kind == Kind::kNone) continue;
    // This rank's own counts as mapped too, so that all ranks agree on what is still to be sent.
    auto& place = mapped_[{rank, request.id}];
    if (rank == config_.rank) {
      places[rank] = static_cast<std::byte*>(memory);
      continue;
    }
    if (place == nullptr) {
      place = request.kind == Kind::kIpc
                  ? map_ipc(config_.device, request.handle)
                  : map_fd(config_.device, fds[rank], request.allocation_bytes);
    }
    places[rank] = place.get() + request.offset;
  }
  return places;
}

NcclGroup::MapRequest NcclGroup::request_for(void* memory, size_t bytes) const {
  const Allocation allocation = allocation_of(memory);
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(memory) - allocation.base);
  MF_CHECK(offset + bytes <= allocation.bytes, "memory: ", bytes, " bytes from offset ", offset,
           " do not lie in one allocation, which holds ", allocation.bytes);
  MapRequest request = {
      .id = allocation.id, .allocation_bytes = allocation.bytes, .offset = offset};
  request.kind = allocation.has_ipc ? MapRequest::Kind::kIpc : MapRequest::Kind::kDescriptor;
  if (allocation.has_ipc) MF_CUDA(cudaIpcGetMemHandle(&request.handle, allocation.base));
  return request;
}

void NcclGroup::recover() {
  const std::vector<uint32_t> epochs = gather(stop(), "recover()");
  uint32_t furthest = epochs.front();
  for (const uint32_t epoch : epochs) {
    if (is_reached(epoch, furthest)) furthest = epoch;
  }
  restart(furthest + kRecoveryStep);
  // Nobody launches, and so posts, before all have reset their words.
  gather(uint32_t{0}, "recover()");
}

}  // namespace megaflux
