// jump_epochs: a group far on in its life without the launches that lead there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "megaflux/comm/local_group_cuda.h"

namespace megaflux::test {

// change(T&) for each of the `count` elements in device memory at `place`.
template <typename T, typename Change>
void change_each(T* place, size_t count, Change&& change) {
  std::vector<T> values(count);
  MF_CUDA(cudaMemcpy(values.data(), place, count * sizeof(T), cudaMemcpyDefault));
  for (T& value : values) change(value);
  MF_CUDA(cudaMemcpy(place, values.data(), count * sizeof(T), cudaMemcpyDefault));
  MF_CUDA(cudaDeviceSynchronize());
}

// As if `num_launches`, an even number, had been made that wrote every epoch word but those of the
// field `left_over`.
inline void jump_epochs(LocalGroup& group, uint32_t num_launches, std::string_view left_over) {
  group.synchronize();
  const auto jump = [&](uint32_t& epoch) { epoch += num_launches; };
  for (size_t i = 0; i < group.num_devices(); ++i) {
    const CurrentDevice current(group.device(i));
    const DeviceContext& context = group.context(i);
    const auto count = static_cast<size_t>(context.num_local);
    change_each(context.local, count, [&](LocalRank& rank) { jump(rank.launched); });
    for (size_t k = 0; k < count; ++k) {
      std::byte* const base = group.base(i, k);
      change_each(at_base(base, context.launch.flags), context.launch.flags.count,
                  [&](EntryFlag& flag) { jump(flag.epoch); });
      for (const FieldInfo& field : group.layout().fields()) {
        if (field.kind != FieldKind::kEpochs || field.name == left_over) continue;
        change_each(reinterpret_cast<uint32_t*>(base + field.offset), field.count, jump);
      }
    }
  }
}

}  // namespace megaflux::test
