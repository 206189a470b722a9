// NcclGroup: the `nccl` fabric. P ranks, one process a GPU, on one machine. NCCL carries what
// processes must tell each other at creation, in map_allocation and in recover; kernels reach
// peers' memory directly and NCCL has no part in a launch. Any number of groups may live in a
// process and end in any order, on different ranks too.
//
//   NcclGroup group({.rank = rank, .num_ranks = 8, .device = device, .unique_id = id}, layout);
//   group.launch(...); group.synchronize();     // as with LocalGroup
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "megaflux/comm/device_group_cuda.h"
#include "megaflux/comm/fd_exchange.h"
#include "megaflux/comm/nccl_channel_cuda.h"

namespace megaflux {

struct NcclConfig {
  int32_t rank = 0;
  int32_t num_ranks = 1;      // P, 1 ... 128
  int32_t device = 0;         // CUDA ordinal in this process
  NcclUniqueId unique_id;     // the same on all ranks; unused with `comm`
  NcclComm* comm = nullptr;   // a communicator of the caller's whose ranks are ours, for one gather
                              // at creation; the caller keeps it
  std::string library_path;   // of NCCL, if the process has none loaded
  uint64_t config_hash = 0;   // must be equal on all ranks
  int32_t payload_words = 0;  // as LocalConfig
  uint32_t start_epoch = 0;
  WaitConfig waits = {};
  // Of each step of the creation, while processes start and NCCL connects them; scaled as `waits`.
  std::chrono::milliseconds creation_deadline{120'000};
};

class NcclGroup final : public DeviceGroup {
 public:
  // Collective. Throws kBadInput naming the field, the value and the limit; kUnsupported for an
  // NCCL that does not fit, ranks that share a GPU or that are on several machines; kDisagree,
  // alike on all ranks, if layouts or configurations differ; alike on all ranks, naming the first,
  // what keeps one of them from its memory or its peers'; kTimeout if a rank does not come, or
  // falls out on the way. If that is so in the gather of `comm`, abort it: a kernel still waits
  // (carry_id).
  NcclGroup(const NcclConfig& config, Layout layout);
  ~NcclGroup() override;

  const NcclLibrary& library() const { return nccl_; }

  // Collective: where every rank's `memory` is reachable from here, [P]; this rank's own is as it
  // is. Each allocation is mapped once, however many pointers into it are asked for, and stays
  // mapped as long as the group. `memory` is of the rank's device, `bytes` long, inside one
  // allocation of cudaMalloc or of virtual memory made for descriptors. A rank without memory gives
  // null and 0, and is null for the others. The allocation outlives the mapping: it is freed after
  // all ranks have ended their groups. If one rank cannot share its memory, or cannot map a peer's,
  // nothing new is mapped on any, and all throw the same, naming that rank.
  std::vector<std::byte*> map_allocation(void* memory, size_t bytes);

  void recover() override;
  // map_allocation of the one range.
  std::vector<std::byte*> map_ranges(std::span<const MemoryRange> local) override;

 private:
  struct Introduction;
  struct MapRequest;
  // The configuration, checked, and with the id of the group's own communicator.
  struct Prepared;
  static Prepared prepare(const NcclConfig& config);
  NcclGroup(const Prepared& prepared, Layout layout);

  // Peers' allocations by rank and id.
  using Mappings = std::map<std::pair<int32_t, uint64_t>, std::shared_ptr<std::byte>>;

  // Tells the others who this rank is, checks that all fit together, and maps their heaps; `own` is
  // the descriptor of this one's.
  void introduce(const UniqueFd& own);
  void check_introductions(const std::vector<Introduction>& all) const;
  void connect_heaps(const std::vector<Introduction>& all, const UniqueFd& own);
  // `own` to every peer, and theirs, [P], of the ranks that have one.
  std::vector<UniqueFd> exchange_fds(const std::vector<bool>& has_fd, const UniqueFd& own);
  MapRequest request_for(void* memory, size_t bytes) const;
  bool is_unmapped(int32_t rank, const MapRequest& request) const;
  bool has_unmapped(const std::vector<MapRequest>& all) const;
  // Maps what of `all` is not mapped yet.
  Mappings map_unmapped(const std::vector<MapRequest>& all, const UniqueFd& own);

  NcclConfig config_;
  NcclLibrary nccl_;
  NcclChannel channel_;
  FdExchange descriptors_;
  std::shared_ptr<std::byte> heap_;
  std::vector<std::shared_ptr<std::byte>> peer_heaps_;  // [P], own is null
  std::vector<std::string> sockets_;                    // [P]
  Mappings mapped_;
  uint32_t num_exchanges_ = 0;  // a tag: no descriptor is taken for one of another exchange
};

}  // namespace megaflux
