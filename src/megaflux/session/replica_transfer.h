// How the weights of replicas come into their slots in the forward of a session on GPUs.
#pragma once

#include <cstdint>

namespace megaflux {

enum class ReplicaTransfer : uint8_t {
  kPipelined,  // while the forward runs
  kStaged,     // in a launch of their own ahead of it
  kInPlace,    // the caller has put there what the plan wants
};

}  // namespace megaflux
