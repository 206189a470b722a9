// Limits of every noun, in one place.
#pragma once

#include <cstdint>

namespace megaflux {

inline constexpr int32_t kMaxExperts = 4096;       // E
inline constexpr int32_t kMaxRanks = 1024;         // P
inline constexpr int32_t kMaxTopk = 64;            // K
inline constexpr int32_t kMaxReplicaSlots = 1024;  // s, slots a rank
inline constexpr int32_t kMaxBlockRows = 1 << 20;  // beta
inline constexpr int32_t kMaxHidden = 65536;       // H
inline constexpr int32_t kMaxInter = 65536;        // I

// Of what a device plans and a group of devices holds; more is an error that names the limit.
inline constexpr int32_t kMaxDeviceExperts = 1024;  // E
inline constexpr int32_t kMaxDeviceRanks = 128;     // P
inline constexpr int32_t kMaxDeviceSlots = 8;       // s

}  // namespace megaflux
