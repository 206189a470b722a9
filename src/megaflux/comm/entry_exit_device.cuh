// Entry and exit of a launch inside a kernel: the device side of entry_exit.h, over the same words
// and with the same rules.
//
//   __global__ void x_kernel(const __grid_constant__ DeviceContext context, ...) {
//     DeviceRank self = begin_launch(context);
//     const EntryOutcome outcome = self.cta == 0 ? enter(self, words) : join_entry(self);
//     if (outcome == EntryOutcome::kEntered) { ... work, waits that may fail ... }
//     leave(self);         // or end_launch(self): a head, in which nobody pulls
//   }
//
// All functions but see_entries, post_pulled and await_pulled are called by all threads of a CTA. A
// kernel that is no launch of its own but works on behalf of one that has ended takes self from
// rejoin_launch and ends nothing. Launches of a rank follow each other in stream order, all CTAs of
// a rank are resident at once, and the grid has a row of CTAs for each rank of the device
// (launch_ranks).
#pragma once

#include "megaflux/comm/entry_exit.h"
#include "megaflux/comm/wait_device.cuh"

namespace megaflux {

namespace device_protocol {

inline constexpr uint32_t kLanes = 32;

// Position of peer p's entry of this launch in an array of [2, P].
__device__ __forceinline__ size_t entry_index(const DeviceRank& self, int32_t peer) {
  return static_cast<size_t>(self.epoch & 1u) * self.num_ranks() + peer;
}

__device__ __forceinline__ uint64_t digest_of(const EntryWords& words) {
  const uint64_t start =
      (uint64_t{static_cast<uint32_t>(words.layer)} << 32) | static_cast<uint32_t>(words.op);
  return mix64(words.plan_hash ^ mix64(words.config_hash ^ mix64(start)));
}

// In the heap of any rank; for those of the first ranks without a look into the table.
__device__ __forceinline__ std::byte* base_of(const DeviceContext& group, int32_t rank) {
  return rank < kFirstBases ? group.first_bases[rank] : group.heap.base(rank);
}

// The words of an entry to where a peer reads them.
__device__ __forceinline__ void store_words(const EntryWords& words, uint32_t refusal_code,
                                            EntrySlot* slot) {
  auto* const vectors = reinterpret_cast<uint4*>(slot);
  vectors[0] = {static_cast<uint32_t>(words.op), static_cast<uint32_t>(words.layer),
                static_cast<uint32_t>(words.plan_hash),
                static_cast<uint32_t>(words.plan_hash >> 32)};
  vectors[1] = {static_cast<uint32_t>(words.config_hash),
                static_cast<uint32_t>(words.config_hash >> 32), refusal_code, 0};
}

// What a rank posts to each of its peers.
struct Posted {
  const EntryWords& words;
  uint64_t digest;
  uint32_t refusal_code;
  const uint32_t* payload;
  int32_t num_words;
};

// One warp: words, payload, then the flag, to the peer whose heap begins at `base`.
__device__ __forceinline__ void post_to(const DeviceRank& self, std::byte* base,
                                        const Posted& posted) {
  const ProtocolFields& protocol = self.group.protocol;
  const auto lane = static_cast<int32_t>(threadIdx.x % kLanes);
  const size_t mine = entry_index(self, self.rank);
  if (lane == 0) {
    store_words(posted.words, posted.refusal_code, at_base(base, protocol.entries) + mine);
  }
  uint32_t* const target = at_base(base, protocol.payload) + mine * protocol.payload_words;
  const int32_t num_vectors = posted.num_words / 4;
  for (int32_t i = lane; i < num_vectors; i += kLanes) {
    const uint32_t* const words = posted.payload + 4 * i;
    reinterpret_cast<uint4*>(target)[i] = {words[0], words[1], words[2], words[3]};
  }
  for (int32_t i = 4 * num_vectors + lane; i < posted.num_words; i += kLanes) {
    target[i] = posted.payload[i];
  }
  __syncwarp();
  if (lane == 0) {
    post_flag(self, at_base(base, self.group.launch.flags) + mine,
              {self.epoch, posted.refusal_code, posted.digest});
  }
}

// Thread `peer`: waits for one peer's entry and says whether it takes part with words of this
// digest. False: the group has aborted.
__device__ __forceinline__ bool await_entry(const DeviceRank& self, int32_t peer, uint64_t digest,
                                            bool& is_agreed) {
  const EntryFlag* const place = self.own(self.group.launch.flags) + entry_index(self, peer);
  const Awaited awaited = {
      .tag = WaitTag::kEntry, .word = nullptr, .expected = self.epoch, .peer = peer};
  EntryFlag flag;
  const bool has_come = wait_until(self, awaited, [&] {
    flag = load_flag(place);
    return flag.epoch;
  });
  if (!has_come) return false;
  is_agreed = flag.refusal_code == 0 && flag.digest == digest;
  if (flag.epoch == self.epoch) return true;
  raise_abort(self, FailureKind::kOutOfStep, awaited, flag.epoch);
  return false;
}

// One thread: the verdict goes to the host, unless one that it has not read yet is there already.
__device__ __forceinline__ void tell_verdict(const DeviceRank& self, const EntrySlot* slots) {
  DeviceStatus& status = self.group.status[self.local_idx];
  if (load_signal<kPeerScope>(&status.disagreed) != 0) return;
  status.verdict = judge_entries(slots, self.num_ranks());
  status.epoch = self.epoch;
  cuda::atomic_ref<uint32_t, kPeerScope>(status.disagreed).store(1, cuda::memory_order_release);
}

// One thread: if the group has failed, the first failure goes to the host, and this rank falls
// silent. An entry that it posted later would tell peers that its inputs are there, and would lie
// where those of a launch are read which a peer may still be in.
__device__ __forceinline__ void tell_failure(const DeviceRank& self) {
  const DeviceContext& group = self.group;
  const uint32_t value = load_signal<kPeerScope>(self.own(group.protocol.abort));
  if (value == 0) return;
  group.local[self.local_idx].is_silent = 1;
  const auto rank = static_cast<int32_t>((value - 1) / kMaxRoles);
  DeviceStatus& status = group.status[self.local_idx];
  status.failure = group.heap.at(rank, group.protocol.failures)[(value - 1) % kMaxRoles];
  cuda::atomic_ref<uint32_t, kPeerScope>(status.failed).store(value, cuda::memory_order_release);
}

// All threads of one of the rank's first `num_ctas` CTAs, behind the entry: its share of the
// counters of the bank that the next launch uses. Each of those CTAs does it before it ends. There
// is room for whole vectors, since banks are whole lines.
__device__ __forceinline__ void clear_share(const DeviceRank& self, int32_t num_ctas) {
  const size_t first = static_cast<size_t>(self.cta) * blockDim.x + threadIdx.x;
  const size_t stride = static_cast<size_t>(num_ctas) * blockDim.x;
  for (int32_t i = 0; i < self.group.num_counters; ++i) {
    const CounterField& field = self.group.counters[i];
    auto* const vectors = reinterpret_cast<uint4*>(self.own(field, self.epoch + 1));
    for (size_t k = first; k < ceil_div(field.count, size_t{4}); k += stride) {
      vectors[k] = {0, 0, 0, 0};
    }
  }
}

// One thread, behind a barrier of those that waited: the rank's other CTAs go on.
__device__ __forceinline__ void post_entered(const DeviceRank& self, EntryOutcome outcome) {
  *self.own(self.group.launch.outcome) = static_cast<uint32_t>(outcome);
  post_signal<kRankScope>(self, self.own(self.group.protocol.entered), self.epoch);
}

}  // namespace device_protocol

// The rank of this CTA in a launch that starts: its epoch is one after the last launch that ended.
__device__ __forceinline__ DeviceRank begin_launch(const DeviceContext& group) {
  const auto local_idx = static_cast<int32_t>(blockIdx.y);
  const LocalRank& local = group.local[local_idx];
  return {.group = group,
          .base = local.base,
          .local_idx = local_idx,
          .rank = local.rank,
          .cta = static_cast<int32_t>(blockIdx.x),
          .num_ctas = static_cast<int32_t>(gridDim.x),
          .epoch = local.launched + 1,
          .is_silent = local.is_silent != 0};
}

// The same in a kernel that carries on for the launch that ended last, without an entry of its own:
// it may touch no peer's memory.
__device__ __forceinline__ DeviceRank rejoin_launch(const DeviceContext& group) {
  DeviceRank self = begin_launch(group);
  --self.epoch;
  return self;
}

// One CTA of the rank. Posts the words and `payload` (num_words <= payload_words; shared or global
// memory, of any alignment) to every rank, this one included; all that the CTA's threads wrote
// before goes with it. A rank that cannot take part posts refusal_code = 1 + ErrorCode: then every
// rank's await_entries ends with kRefused. A rank of which an earlier launch has aborted posts
// nothing: the peers' waits end with the failure.
__device__ __forceinline__ void post_entry(const DeviceRank& self, const EntryWords& words,
                                           const uint32_t* payload = nullptr, int32_t num_words = 0,
                                           uint32_t refusal_code = 0) {
  const auto warp = static_cast<int32_t>(threadIdx.x / device_protocol::kLanes);
  const auto num_warps = static_cast<int32_t>(blockDim.x / device_protocol::kLanes);
  // Each rank starts with its right neighbour, so that they do not queue for the same memory.
  const uint64_t digest = device_protocol::digest_of(words);
  const int32_t num_peers = self.is_silent ? 0 : self.num_ranks();
  __syncthreads();
  for (int32_t step = warp; step < num_peers; step += num_warps) {
    const int32_t peer = (self.rank + 1 + step) % self.num_ranks();
    device_protocol::post_to(self, device_protocol::base_of(self.group, peer),
                             {words, digest, refusal_code, payload, num_words});
  }
}

// The CTA that posted, with the words that it posted. Waits for all entries of this launch, checks
// that they agree, lets the rank's other CTAs go on and clears its share of the counters of the
// other bank. Holds a barrier of the CTA behind all waits.
__device__ __forceinline__ EntryOutcome await_entries(const DeviceRank& self,
                                                      const EntryWords& words) {
  const DeviceContext& group = self.group;
  const EntrySlot* const slots =
      self.own(group.protocol.entries) + device_protocol::entry_index(self, 0);
  const auto num_threads = static_cast<int32_t>(blockDim.x);
  const uint64_t digest = device_protocol::digest_of(words);
  // An aborted group enters nothing, even if all entries are there. The last thread looks: in most
  // launches it has no peer to wait for.
  bool is_sound = true;
  if (threadIdx.x == blockDim.x - 1) is_sound = !is_aborted(self);
  bool is_agreed = true;
  for (int32_t peer = threadIdx.x; peer < self.num_ranks(); peer += num_threads) {
    bool agrees = true;
    is_sound = is_sound && device_protocol::await_entry(self, peer, digest, agrees);
    if (!is_sound) break;
    is_agreed = is_agreed && agrees;
  }
  EntryOutcome outcome = EntryOutcome::kEntered;
  if (__syncthreads_or(!is_sound || !is_agreed)) {
    outcome = __syncthreads_or(!is_sound) ? EntryOutcome::kAborted : EntryOutcome::kRefused;
    if (outcome == EntryOutcome::kRefused && threadIdx.x == 0) {
      device_protocol::tell_verdict(self, slots);
    }
  }
  if (self.num_ctas > 1 && threadIdx.x == 0) device_protocol::post_entered(self, outcome);
  device_protocol::clear_share(self, self.num_ctas);
  return outcome;
}

// post_entry, then await_entries.
__device__ __forceinline__ EntryOutcome enter(const DeviceRank& self, const EntryWords& words,
                                              const uint32_t* payload = nullptr,
                                              int32_t num_words = 0) {
  post_entry(self, words, payload, num_words);
  return await_entries(self, words);
}

// The rank's other CTAs: ends when the entry has passed, with its outcome, and clears their shares
// of the counters of the other bank.
__device__ __forceinline__ EntryOutcome join_entry(const DeviceRank& self) {
  const DeviceContext& group = self.group;
  bool is_sound = true;
  if (threadIdx.x == 0) {
    is_sound = wait_for<kRankScope>(self, {.tag = WaitTag::kEntered,
                                           .word = self.own(group.protocol.entered),
                                           .expected = self.epoch});
  }
  is_sound = __syncthreads_and(is_sound);
  const uint32_t outcome =
      is_sound ? *self.own(group.launch.outcome) : static_cast<uint32_t>(EntryOutcome::kAborted);
  device_protocol::clear_share(self, self.num_ctas);
  return static_cast<EntryOutcome>(outcome);
}

// One warp of a CTA that needs neither the outcome nor what the entry passes on: ends when all
// peers have entered this launch, whatever they said, or when the group has aborted.
__device__ __forceinline__ void see_entries(const DeviceRank& self) {
  const EntryFlag* const flags =
      self.own(self.group.launch.flags) + device_protocol::entry_index(self, 0);
  bool is_sound = true;
  for (int32_t peer = threadIdx.x % device_protocol::kLanes; is_sound && peer < self.num_ranks();
       peer += device_protocol::kLanes) {
    // Twice the deadline, as those who wait for `entered`: the CTA that enters names the peer.
    const Awaited awaited = {
        .tag = WaitTag::kEntered, .word = nullptr, .expected = self.epoch, .peer = peer};
    is_sound = wait_until(self, awaited, [&] { return load_flag(flags + peer).epoch; });
  }
  __syncwarp();
}

// What rank `peer` sent with its entry of this launch, [payload_words] in this rank's memory; valid
// until this rank's next post_entry. Never read it through the non-coherent path.
__device__ __forceinline__ const uint32_t* payload_of(const DeviceRank& self, int32_t peer) {
  const DeviceContext& group = self.group;
  return self.own(group.protocol.payload) +
         device_protocol::entry_index(self, peer) * group.protocol.payload_words;
}

// One warp: this rank has pulled all that it needs from its peers in this launch. leave() does it;
// a rank with long work left after its last pull posts it earlier, behind the last pull of all its
// CTAs.
__device__ __forceinline__ void post_pulled(const DeviceRank& self) {
  const DeviceContext& group = self.group;
  __syncwarp();
  for (int32_t step = threadIdx.x % device_protocol::kLanes; step < self.num_ranks();
       step += device_protocol::kLanes) {
    const int32_t peer = (self.rank + 1 + step) % self.num_ranks();
    std::byte* const base = device_protocol::base_of(group, peer);
    post_signal<kPeerScope>(self, at_base(base, group.protocol.pulled) + self.rank, self.epoch);
  }
}

// One warp: ends when all peers have posted pulled for this launch. False: the group has aborted.
__device__ __forceinline__ bool await_pulled(const DeviceRank& self) {
  uint32_t* const pulled = self.own(self.group.protocol.pulled);
  bool is_sound = true;
  for (int32_t peer = threadIdx.x % device_protocol::kLanes; is_sound && peer < self.num_ranks();
       peer += device_protocol::kLanes) {
    is_sound = wait_for<kPeerScope>(
        self,
        {.tag = WaitTag::kExitPulled, .word = pulled + peer, .expected = self.epoch, .peer = peer});
  }
  return __all_sync(~0u, is_sound);
}

namespace device_protocol {

// True in all threads of the CTA that ends last of its rank's; it has then seen what the others
// did.
__device__ __forceinline__ bool ends_last(const DeviceRank& self) {
  __syncthreads();
  if (self.num_ctas == 1) return true;
  bool is_last = false;
  if (threadIdx.x == 0) {
    uint32_t* const done = self.own(self.group.launch.ctas_done, self.epoch);
    const auto others = static_cast<uint32_t>(self.num_ctas) - 1;
    is_last = add_signal<kRankScope>(self, done, 1) == others;
  }
  return __syncthreads_or(is_last);
}

// One warp of the last CTA: the launch has ended on this rank. Words that not every launch writes,
// `pulled` without exit and `entered` without other CTAs, are renewed now and then: left over for
// 2^31 launches they would seem to lie ahead. No peer can post the next `pulled` yet.
__device__ __forceinline__ void finish(const DeviceRank& self) {
  const DeviceContext& group = self.group;
  const auto lane = static_cast<int32_t>(threadIdx.x % kLanes);
  if (self.epoch % kRenewalPeriod == 0) {
    for (int32_t peer = lane; peer < self.num_ranks(); peer += kLanes) {
      self.own(group.protocol.pulled)[peer] = self.epoch;
    }
    if (lane == 0) *self.own(group.protocol.entered) = self.epoch;
  }
  if (lane != 0) return;
  group.local[self.local_idx].launched = self.epoch;
  tell_failure(self);
}

}  // namespace device_protocol

// Every CTA of the rank, once, as the end of a launch in which nobody pulls, or that was not
// entered. The last one moves the rank's epoch on.
__device__ __forceinline__ void end_launch(const DeviceRank& self) {
  if (!device_protocol::ends_last(self)) return;
  if (threadIdx.x < device_protocol::kLanes) device_protocol::finish(self);
}

// Every CTA of the rank, once, as the end of any other launch: the last one posts pulled to every
// peer and waits for theirs; the kernel ends after that.
__device__ __forceinline__ void leave(const DeviceRank& self) {
  if (!device_protocol::ends_last(self)) return;
  if (threadIdx.x < device_protocol::kLanes) {
    // One answer for all lanes, which meet inside.
    if (__all_sync(~0u, !is_aborted(self))) {
      post_pulled(self);
      await_pulled(self);
    }
    device_protocol::finish(self);
  }
}

}  // namespace megaflux
