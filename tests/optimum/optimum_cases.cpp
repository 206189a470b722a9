#include "optimum/optimum_cases.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "megaflux/base/rng.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"
#include "megaflux/moe/scale_counts.h"
#include "megaflux/trace/trace_file.h"

namespace megaflux::optimum {
namespace {

template <typename T, size_t N>
T pick(Rng& rng, const std::array<T, N>& values) {
  return values[rng.below(N)];
}

std::string dims_text(const PlanDims& dims) {
  return ",E=" + std::to_string(dims.num_experts) + ",P=" + std::to_string(dims.num_ranks) +
         ",s=" + std::to_string(dims.replica_slots) + ",beta=" + std::to_string(dims.block_rows);
}

LoadTable table_of(int32_t num_ranks, const std::vector<int32_t>& counts) {
  return LoadTable::from_totals(num_ranks, std::vector<int64_t>(counts.begin(), counts.end()));
}

// Makes some cases unlike the plain ones, and says so in their names.
void vary(Rng& rng, OptimumCase& c) {
  PlanConfig& config = c.config;
  const int32_t ranks = config.dims.num_ranks, experts = config.dims.num_experts;
  if (rng.below(10) < 3) {
    config.owner_of = contiguous_owners(experts, ranks);
    for (int32_t e = experts - 1; e > 0; --e) {
      std::swap(config.owner_of[e], config.owner_of[rng.below(e + 1)]);
    }
    c.name += ",owners=shuffled";
  }
  if (ranks >= 4 && rng.below(10) == 0) {
    for (int32_t r = 0; r < ranks; ++r) config.domain_of.push_back(r >= ranks / 2);
    c.name += ",domains=2";
  }
  if (ranks >= 4 && config.domain_of.empty() && rng.below(10) == 0) {
    const int32_t idle = static_cast<int32_t>(rng.below(ranks));
    config.active.assign(ranks, 1);
    config.active[idle] = 0;
    if (config.owner_of.empty()) config.owner_of = contiguous_owners(experts, ranks);
    for (int32_t e = 0; e < experts; ++e) {
      if (config.owner_of[e] == idle) config.owner_of[e] = (idle + 1 + e % (ranks - 1)) % ranks;
    }
    c.name += ",inactive=" + std::to_string(idle);
  }
  if (rng.below(8) == 0) {
    const int32_t mean =
        static_cast<int32_t>(c.loads.total_rows() / (int64_t{config.dims.block_rows} * ranks));
    for (int32_t r = 0; r < ranks; ++r) {
      config.base_blocks.push_back(static_cast<int32_t>(rng.below(mean / 2 + 1)));
    }
    c.name += ",base=random";
  }
  if (rng.below(6) == 0) {
    for (int32_t r = 0; r < ranks; ++r) {
      config.speed.push_back(static_cast<uint16_t>(512 + 128 * rng.below(6)));
    }
    c.name += ",speed=random";
  }
}

// Cells of the traces with at most 128 experts, the files in turn.
class TraceCases {
 public:
  TraceCases(const std::string& data, Rng& rng) : data_(data), rng_(rng) {}

  OptimumCase next() {
    static constexpr std::array<const char*, 9> kFiles = {"esft_intent",
                                                          "esft_law",
                                                          "esft_summary",
                                                          "gptoss20b_decode_counts",
                                                          "gptoss20b_decode_topk",
                                                          "mixtral8x7b_domain_counts",
                                                          "olmoe_domain_counts",
                                                          "olmoe_lens_counts",
                                                          "qwen3_30b_a3b_decode_counts"};
    const size_t file = num_made_++ % kFiles.size();
    while (traces_.size() <= file) {
      traces_.push_back(
          std::make_unique<Trace>(read_trace(data_ + "/" + kFiles[traces_.size()] + ".npz")));
    }
    const Trace& trace = *traces_[file];
    const int32_t step = static_cast<int32_t>(rng_.below(uint32_t(trace.num_steps())));
    const int32_t layer = static_cast<int32_t>(rng_.below(uint32_t(trace.num_layers())));
    const int32_t experts = trace.meta().num_experts;
    const int32_t ranks = std::min(experts, pick<int32_t, 3>(rng_, {4, 8, 16}));
    const int32_t rows = pick<int32_t, 3>(rng_, {2048, 8192, 65536});
    const LoadTable recorded = trace.loads(step, layer, 1);
    const int64_t total = int64_t{rows} * ranks;
    OptimumCase c;
    c.config.dims = {experts, ranks, pick<int32_t, 3>(rng_, {2, 2, 3}),
                     pick<int32_t, 2>(rng_, {64, 128})};
    c.loads = table_of(ranks, scale_counts(recorded.totals(), total, total));
    c.name = std::string(kFiles[file]) + ":" + std::to_string(step) + ":" + std::to_string(layer) +
             dims_text(c.config.dims) + ",rows=" + std::to_string(rows);
    return c;
  }

 private:
  std::string data_;
  Rng& rng_;
  size_t num_made_ = 0;
  std::vector<std::unique_ptr<Trace>> traces_;
};

OptimumCase family_case(Rng& rng, int32_t n) {
  constexpr std::array<RouteFamily, 6> kFamilies = {RouteFamily::kNear,   RouteFamily::kHot15,
                                                    RouteFamily::kOneHot, RouteFamily::kZipfK3,
                                                    RouteFamily::kZipfK6, RouteFamily::kBalanced};
  RouteRequest request;
  request.family = kFamilies[n % kFamilies.size()];
  request.num_experts = pick<int32_t, 3>(rng, {32, 64, 128});
  request.num_ranks = pick<int32_t, 3>(rng, {4, 8, 16});
  request.topk = request.num_experts == 32 ? 2 : 4;
  request.topk = std::min(request.topk, request.num_experts / request.num_ranks);
  request.tokens_per_rank = pick<int32_t, 3>(rng, {512, 1024, 4096});
  OptimumCase c;
  c.config.dims = {request.num_experts, request.num_ranks, 2, 64};
  c.loads = table_of(request.num_ranks, route_totals(request));
  c.name = std::string(route_family_name(request.family)) + dims_text(c.config.dims) +
           ",K=" + std::to_string(request.topk) + ",T=" + std::to_string(request.tokens_per_rank);
  return c;
}

// Loads with a heavy tail: a few experts have most of the blocks, some have none.
void fill_heavy_tail(Rng& rng, std::vector<int32_t>& blocks) {
  const uint32_t most = pick<uint32_t, 3>(rng, {6, 40, 400});
  for (int32_t& count : blocks) {
    count = static_cast<int32_t>(rng.below(most));
    for (uint32_t k = rng.below(4); k > 0; --k) count = static_cast<int32_t>(rng.below(count + 1));
  }
  blocks[rng.below(uint32_t(blocks.size()))] += static_cast<int32_t>(1 + rng.below(most));
}

// Many experts of much the same size, those of some ranks larger: what a rank has too much is in no
// single expert, so slots are short.
void fill_flat(Rng& rng, int32_t num_ranks, std::vector<int32_t>& blocks) {
  const std::vector<int32_t> owners =
      contiguous_owners(static_cast<int32_t>(blocks.size()), num_ranks);
  const uint32_t most = pick<uint32_t, 3>(rng, {4, 12, 60});
  std::vector<uint32_t> factor;
  for (int32_t r = 0; r < num_ranks; ++r) factor.push_back(2 + rng.below(4));
  for (size_t e = 0; e < blocks.size(); ++e) {
    blocks[e] = static_cast<int32_t>((most / 2 + rng.below(most)) * factor[owners[e]] / 2);
  }
}

OptimumCase random_case(Rng& rng, int32_t n) {
  constexpr int32_t kBlockRows = 16;
  OptimumCase c;
  const bool is_flat = n % 2 == 0;
  const int32_t experts = is_flat ? pick<int32_t, 3>(rng, {32, 64, 128})
                                  : pick<int32_t, 7>(rng, {4, 6, 8, 12, 16, 32, 64});
  const int32_t ranks =
      std::min(experts / (is_flat ? 4 : 1), static_cast<int32_t>(2 + rng.below(15)));
  c.config.dims = {experts, ranks, static_cast<int32_t>(2 + rng.below(2)), kBlockRows};
  std::vector<int32_t> rows(experts);
  is_flat ? fill_flat(rng, ranks, rows) : fill_heavy_tail(rng, rows);
  for (int32_t& count : rows) count *= kBlockRows;
  c.loads = table_of(ranks, rows);
  c.name = (is_flat ? "flat-" : "tail-") + std::to_string(n) + dims_text(c.config.dims);
  return c;
}

}  // namespace

std::vector<OptimumCase> make_cases(const std::string& data) {
  Rng rng(20261130);
  TraceCases traces(data, rng);
  std::vector<OptimumCase> cases;
  for (int32_t n = 0; n < kNumCases; ++n) {
    const int32_t third = n % 3;
    cases.push_back(third == 0   ? traces.next()
                    : third == 1 ? family_case(rng, n / 3)
                                 : random_case(rng, n / 3));
    vary(rng, cases.back());
  }
  return cases;
}

}  // namespace megaflux::optimum
