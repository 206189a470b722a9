#include "megaflux/comm/entry_words.h"

#include <sstream>
#include <string>

namespace megaflux {
namespace {

std::string hex(uint64_t value) {
  std::ostringstream words;
  words << "0x" << std::hex << value;
  return words.str();
}

// "layer 4": the field of the fault and one rank's value of it.
std::string field_text(const EntryVerdict& verdict, uint64_t value) {
  switch (verdict.fault) {
    case EntryFault::kOp:
      return "op " + std::string(launch_op_name(static_cast<LaunchOp>(value)));
    case EntryFault::kLayer:
      return "layer " + std::to_string(static_cast<int32_t>(value));
    case EntryFault::kConfigHash:
      return "config hash " + hex(value);
    case EntryFault::kPlanHash:
      return (verdict.op == LaunchOp::kHead ? "residency hash " : "plan hash ") + hex(value);
    case EntryFault::kNone:
    case EntryFault::kRefused:
      break;
  }
  return "nothing";
}

}  // namespace

std::string_view launch_op_name(LaunchOp op) {
  switch (op) {
    case LaunchOp::kHead:
      return "head";
    case LaunchOp::kForward:
      return "forward";
    case LaunchOp::kBackward:
      return "backward";
    case LaunchOp::kReplay:
      return "replay";
    case LaunchOp::kDistributeWeights:
      return "distribute_weights";
    case LaunchOp::kReduceGradients:
      return "reduce_gradients";
  }
  return "unknown";
}

AgreedError agreed_error(const EntryVerdict& verdict, uint32_t epoch, std::string_view refusal) {
  std::ostringstream words;
  if (verdict.fault == EntryFault::kRefused) {
    words << refusal;
    if (refusal.empty()) words << "rank " << verdict.peer << " refused to enter epoch " << epoch;
    return {static_cast<ErrorCode>(verdict.theirs - 1), words.str()};
  }
  words << "ranks disagree: rank " << verdict.peer << " entered epoch " << epoch << " with "
        << field_text(verdict, verdict.theirs) << ", rank 0 with "
        << field_text(verdict, verdict.first);
  return {ErrorCode::kDisagree, words.str()};
}

}  // namespace megaflux
