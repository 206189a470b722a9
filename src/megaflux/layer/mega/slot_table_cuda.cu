#include "megaflux/layer/mega/slot_table_cuda.h"

#include "megaflux/base/check_cuda.h"

namespace megaflux {
namespace {

constexpr int32_t kNumThreads = 256;

// A CTA a rank.
__global__ void claim_slots_kernel(const LocalRank* local, Field<int32_t> experts,
                                   Field<SlotKey> keys, SlotKey wanted) {
  std::byte* const base = local[blockIdx.x].base;
  SlotKey* const key = at_base(base, keys);
  const bool is_known = *key == wanted;
  __syncthreads();  // all have looked
  if (is_known) return;
  const auto count = static_cast<int32_t>(experts.count);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += kNumThreads) {
    at_base(base, experts)[i] = -1;
  }
  if (threadIdx.x == 0) *key = wanted;
}

}  // namespace

void claim_slots(const DeviceContext& context, const MegaFields& fields, const SlotKey& key,
                 cudaStream_t stream) {
  claim_slots_kernel<<<context.num_local, kNumThreads, 0, stream>>>(
      context.local, fields.slot_experts, fields.slot_key, key);
  MF_CUDA(cudaGetLastError());
}

}  // namespace megaflux
