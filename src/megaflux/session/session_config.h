// What a Session's configuration becomes, and the checks of what its callers hand in.
#pragma once

#include <initializer_list>
#include <string_view>

#include "megaflux/session/session.h"

namespace megaflux {

// Fills in E and the owners, cuts C and the Z capacity to whole tiles. Throws kBadInput naming the
// field, the value and the limit.
SessionConfig complete_config(SessionConfig config);
// The parts of a complete configuration.
CpuLayerConfig layer_config_of(const SessionConfig& config);
HeadConfig head_config_of(const SessionConfig& config, const CpuLayerConfig& layer);

// Tokens of one rank in a call.
struct RankTokens {
  int32_t num_tokens = 0;
  int32_t max_tokens = 0;
  int32_t rank = 0;
  int64_t row_bytes = 0;  // of one token's x, y, dy or dx
};
RankTokens tokens_of(const ForwardState& state, const LayerShape& shape, int32_t rank);

struct NamedTensor {
  std::string_view name;
  const void* data = nullptr;
};
// Throws kBadInput if there are more than T_max tokens, naming both, or if a tensor of tokens is
// null.
void check_tensors(const RankTokens& tokens, std::initializer_list<NamedTensor> tensors);

// Throws kBadInput if the output of one rank shares memory with an input of this or another one,
// which peers read while it is written.
void check_not_in_place(const RankTokens& writer, const NamedTensor& output,
                        const RankTokens& reader, std::initializer_list<NamedTensor> inputs);

// Throws kBadInput if the layer's weights changed since the forward.
void check_same_version(const ForwardState& state, uint64_t version);

// Throws kBadInput if a span or pointer of the call does not fit the context and the layer.
void check_backward_call(const ForwardState& state, const BackwardCall& call,
                         const CpuLayerConfig& layer);

}  // namespace megaflux
