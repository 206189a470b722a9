// The table of what replica slots hold (MegaFields::slot_experts) is about the weights of one layer
// in one version; this is how it comes to be about another one.
#pragma once

#include <cuda_runtime_api.h>

#include "megaflux/comm/device_context.h"
#include "megaflux/layer/mega/mega_fields.h"

namespace megaflux {

// A step of a stream on the current device, whose ranks these are: behind it their tables say what
// slots hold of the weights `key`, nothing if the launches before were about others. The keys lie
// beside the tables, so that a captured step is right on every replay, whatever ran in between.
void claim_slots(const DeviceContext& context, const MegaFields& fields, const SlotKey& key,
                 cudaStream_t stream);

}  // namespace megaflux
