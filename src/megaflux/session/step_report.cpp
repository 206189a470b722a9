#include "megaflux/session/step_report.h"

#include <algorithm>

#include "megaflux/moe/work_list.h"

namespace megaflux {
namespace {

// Bytes of this kind that `rank` moved itself, as their puller or, in combine, their pusher.
int64_t moved_by(const RankReport& rank, Traffic kind) {
  int64_t sum = 0;
  for (const int64_t bytes : rank.bytes[static_cast<int32_t>(kind)]) sum += bytes;
  return sum;
}

int64_t moved_for(const std::vector<RankReport>& ranks, Traffic kind, int32_t peer) {
  int64_t sum = 0;
  for (const RankReport& rank : ranks) sum += rank.bytes_of(kind, peer);
  return sum;
}

}  // namespace

int64_t StepReport::bytes_in(Traffic kind, int32_t rank) const {
  const bool is_pushed = kind == Traffic::kCombine;
  return is_pushed ? moved_for(ranks, kind, rank) : moved_by(ranks[rank], kind);
}

int64_t StepReport::bytes_out(Traffic kind, int32_t rank) const {
  const bool is_pushed = kind == Traffic::kCombine;
  return is_pushed ? moved_by(ranks[rank], kind) : moved_for(ranks, kind, rank);
}

int64_t StepReport::total(Traffic kind) const {
  int64_t sum = 0;
  for (const RankReport& rank : ranks) sum += moved_by(rank, kind);
  return sum;
}

int64_t StepReport::peak_rows() const {
  int64_t peak = 0;
  for (const RankReport& rank : ranks) peak = std::max(peak, int64_t{rank.tiles} * kTileRows);
  return peak;
}

}  // namespace megaflux
