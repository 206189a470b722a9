#include <future>
#include <thread>
#include <utility>

#include "megaflux/base/check_cuda.h"
#include "megaflux/comm/nccl_channel_cuda.h"

namespace megaflux {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFirstGather = "a gather on the communicator that was handed in";

[[noreturn]] void throw_missing(int32_t rank, std::chrono::milliseconds deadline,
                                const char* purpose) {
  throw_error(ErrorCode::kTimeout, "rank ", rank, " waited ", deadline.count(),
              " ms for all ranks in ", purpose, ": a rank is missing or stuck");
}

// False if the stream has not ended by `end`.
bool await_stream(cudaStream_t stream, Clock::time_point end) {
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady) check_cuda(status, "cudaStreamQuery");
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

GatherStage stage_on(const NcclMember& member) {
  const CurrentDevice current(member.device);
  return GatherStage(member.num_ranks);
}

NcclComm* comm_on(const NcclLibrary& nccl, const NcclUniqueId& id, const NcclMember& member) {
  const CurrentDevice current(member.device);
  return nccl.make_comm(id, member.num_ranks, member.rank, member.deadline);
}

}  // namespace

NcclUniqueId carry_id(const NcclLibrary& nccl, NcclComm* comm, const NcclMember& member) {
  // The call may block, and its kernel does, for as long as a peer is missing. The thread owns all
  // that they use, and so does not keep this one.
  std::packaged_task<NcclUniqueId()> task([nccl, comm, member] {
    MF_CUDA(cudaSetDevice(member.device));
    const GatherStage stage(member.num_ranks);
    const NcclUniqueId own = member.rank == 0 ? nccl.make_unique_id() : NcclUniqueId();
    std::vector<NcclUniqueId> all(member.num_ranks);
    if (!stage.enqueue(nccl, comm, &own, sizeof(own), member.deadline)) {
      throw_missing(member.rank, member.deadline, kFirstGather);
    }
    stage.fetch(all.data(), sizeof(own));
    return all.front();
  });
  std::future<NcclUniqueId> id = task.get_future();
  std::thread carrier(std::move(task));
  if (id.wait_for(member.deadline) != std::future_status::ready) {
    carrier.detach();
    throw_missing(member.rank, member.deadline, kFirstGather);
  }
  carrier.join();
  return id.get();
}

GatherStage::GatherStage(int32_t num_ranks) : num_ranks_(num_ranks) {
  cudaStream_t stream = nullptr;
  MF_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
  void* memory = nullptr;
  MF_CUDA(cudaMalloc(&memory, (1 + static_cast<size_t>(num_ranks)) * kRecordBytes));
  memory_.reset(static_cast<std::byte*>(memory));
}

bool GatherStage::enqueue(const NcclLibrary& nccl, NcclComm* comm, const void* mine, size_t bytes,
                          std::chrono::milliseconds deadline) const {
  MF_INVARIANT(bytes <= kRecordBytes, bytes, " bytes to gather");
  MF_CUDA(cudaMemcpyAsync(memory_.get(), mine, bytes, cudaMemcpyHostToDevice, stream()));
  return nccl.all_gather(
      {.send = memory_.get(), .receive = memory_.get() + kRecordBytes, .bytes = bytes}, comm,
      reinterpret_cast<NcclStream*>(stream()), deadline);
}

void GatherStage::fetch(void* all, size_t bytes) const {
  // On its own stream: the default one may have to wait for others.
  MF_CUDA(cudaMemcpyAsync(all, memory_.get() + kRecordBytes, bytes * num_ranks_,
                          cudaMemcpyDeviceToHost, stream()));
  MF_CUDA(cudaStreamSynchronize(stream()));
}

NcclChannel::NcclChannel(const NcclLibrary& nccl, const NcclUniqueId& id, const NcclMember& member)
    : nccl_(nccl), member_(member), stage_(stage_on(member)), comm_(comm_on(nccl, id, member)) {}

NcclChannel::~NcclChannel() {
  const CurrentDevice current(member_.device, std::nothrow);
  break_off();
}

// Aborting a communicator waits for nobody; destroying it may wait for peers.
void NcclChannel::break_off() noexcept {
  if (comm_ != nullptr) nccl_.abort_comm(comm_);
  comm_ = nullptr;
}

void NcclChannel::gather_bytes(const void* mine, void* all, size_t bytes, const Wait& wait) {
  MF_CHECK(comm_ != nullptr, wait.purpose,
           ": the communicator was broken off when a rank was missing");
  const CurrentDevice current(member_.device);
  const Clock::time_point end = Clock::now() + wait.deadline;
  try {
    const bool has_come = stage_.enqueue(nccl_, comm_, mine, bytes, wait.deadline) &&
                          await_stream(stage_.stream(), end);
    if (!has_come) throw_missing(member_.rank, wait.deadline, wait.purpose);
  } catch (...) {
    break_off();
    throw;
  }
  stage_.fetch(all, bytes);
}

}  // namespace megaflux
