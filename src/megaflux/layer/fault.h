// Faults that an executor commits on purpose, so that checks can be shown to catch them. Each acts
// on every rank, in one place of the executor's code. What catches them: kLostFlag the deadline;
// the others the comparison with the reference and with fixed placement; where bytes are counted,
// kStaleSlot, kDropRow and kSkipReplicaGradient also the moved bytes.
#pragma once

#include <cstdint>

namespace megaflux {

enum class Fault : uint8_t {
  kNone,
  kStaleSlot,   // a replica slot is marked ready without a copy: it keeps what it held before
  kDropRow,     // the first row of a rank's first tile is not pulled; zeros stand in its place
  kSwapKOrder,  // a token's results are summed in descending k
  kSkipReplicaGradient,  // the owner leaves out the gradient of an expert's first replica
  kLostFlag,             // arrivals of rows are never signalled: x_full times out
  kWrongOwner,           // a slot pulls the weights of the next expert from that expert's owner
};

}  // namespace megaflux
