// What reading and writing UltraEP's load traces share: schema "ultra_ep_trace_v1".
//
// A trace TRACE is TRACE.manifest.json and chunks TRACE.chunk000000.npz, TRACE.chunk000001.npz, ...
// A chunk holds N records, one a layer and microbatch:
//   metadata             <U.  []     JSON
//   layers               <i4  [N]    model layer
//   virtual_layers       <i4  [N]    layer x microbatches in flight + the one at hand
//   microbatches         <i8  [N]    counts up, per layer
//   pre_logical_loads    <i4  [N, E] rows of each expert
//   post_physical_loads  <i4  [N, G x (M + R)] planned rows of each place: of rank g's M own
//   experts
//                                    and R slots, rank by rank
// Experts stand on the ranks in order, M = E / G on each of the G ranks.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace megaflux::convert {

inline constexpr std::string_view kUltraEpSchema = "ultra_ep_trace_v1";
inline constexpr std::string_view kManifestSuffix = ".manifest.json";

// Names in their files.
inline constexpr const char* kRankOwned = "num_local_master_experts";     // M
inline constexpr const char* kRankSlots = "num_local_redundant_experts";  // R
inline constexpr const char* kRankPlaces = "num_local_physical_experts";  // M + R
inline constexpr const char* kExperts = "num_global_logical_experts";     // E
inline constexpr const char* kPlaces = "num_global_physical_experts";     // G (M + R)
inline constexpr const char* kEpSize = "ep_size";                         // G

struct UltraEpDims {
  int32_t num_experts = 0;  // E
  int32_t num_ranks = 0;    // G
  int32_t slots = 0;        // R
  int64_t owned() const { return num_experts / num_ranks; }
  int64_t places() const { return num_experts + int64_t{num_ranks} * slots; }
  friend bool operator==(const UltraEpDims&, const UltraEpDims&) = default;
};

// "TRACE.chunk000012.npz".
std::string chunk_name(const std::string& trace, int64_t number);

// The object in `text`. Throws kBadInput, opening with `name`: no JSON object, another schema.
nlohmann::json parse_ultraep_json(std::string_view text, const std::string& name);

// A whole number in [low, high]. Throws kBadInput naming file, key, value and limits.
int64_t ultraep_number(const nlohmann::json& object, const char* key, std::array<int64_t, 2> limits,
                       const std::string& name);

}  // namespace megaflux::convert
