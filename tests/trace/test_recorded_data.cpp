// The traces in data/.
#include <gtest/gtest.h>

#include <cmath>

#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"
#include "megaflux/trace/deflate.h"
#include "megaflux/trace/route_file.h"
#include "megaflux/trace/trace_file.h"
#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

namespace fs = std::filesystem;

std::string data_file(const std::string& name) {
  return std::string(MF_SOURCE_DIR) + "/data/" + name;
}

double imbalance(const Trace& trace, int32_t layer_idx, int32_t ranks) {
  return owner_imbalance(trace.loads(0, layer_idx, ranks),
                         contiguous_owners(trace.meta().num_experts, ranks));
}

TEST(RecordedData, EveryFileStatesOriginAndLicence) {
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  std::ifstream stream(data_file("README.md"));
  const std::string readme{std::istreambuf_iterator<char>(stream), {}};
  int num_files = 0;
  uintmax_t total_bytes = 0;
  for (const auto& entry : fs::directory_iterator(data_file(""))) {
    total_bytes += entry.file_size();
    if (entry.path().extension() != ".npz") continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++num_files;
    const Trace trace = read_trace(entry.path().string());
    EXPECT_TRUE(trace.meta().licence == "MIT" || trace.meta().licence == "Apache-2.0");
    EXPECT_TRUE(trace.meta().origin.starts_with("github.com/"));
    EXPECT_FALSE(trace.meta().model.empty());
    EXPECT_NE(readme.find(entry.path().filename().string()), std::string::npos);
    for (int64_t step = 0; step < trace.num_steps(); ++step) {
      ASSERT_GT(trace.num_tokens(step), 0) << step;
    }
    const auto routing = trace.routing(0, 0, 8);
    for (int32_t p = 0; p < 8; ++p) {
      check_routing(routing[p].view(), p, trace.meta().num_experts);
    }
  }
  EXPECT_GE(num_files, 11);
  EXPECT_LT(total_bytes, 8u << 20);
}

TEST(RecordedData, DefaultTraceIsStoredAndSkewed) {
  const auto bytes = file_bytes(data_file("esft_law.npz"));
  for (const ZipEntry& entry : parse_zip(bytes, "esft_law.npz")) {
    EXPECT_EQ(entry.method, ZipMethod::kStored);
  }
  const Trace trace = read_trace(data_file("esft_law.npz"));
  EXPECT_EQ(trace.meta().num_experts, 64);
  EXPECT_EQ(trace.meta().topk, 6);
  EXPECT_EQ(trace.num_tokens(0), 8327);
  EXPECT_EQ(trace.layer_index(19), 18);
  EXPECT_NEAR(imbalance(trace, 18, 8), 2.3214, 0.0001);
  for (int32_t layer = 0; layer < trace.num_layers(); ++layer) {
    EXPECT_LE(imbalance(trace, layer, 8), imbalance(trace, 18, 8));
  }
}

// Figures that the collection states for these recordings: median / largest kappa over steps and
// layers.
TEST(RecordedData, SkewIsWhatTheSourcesHave) {
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  const struct {
    const char* file;
    double median, most;
  } cases[] = {{"glm52_prefill_counts.npz", 2.042, 7.913},
               {"olmoe_lens_counts.npz", 1.850, 3.088},
               {"olmoe_domain_counts.npz", 1.500, 2.819},
               {"mixtral8x7b_domain_counts.npz", 1.014, 1.034},
               {"qwen3_30b_a3b_decode_counts.npz", 2.287, 2.662},
               {"dsv4flash_decode_topk.npz", 6.911, 15.986}};
  for (const auto& c : cases) {
    const Trace trace = read_trace(data_file(c.file));
    std::vector<double> kappas;
    for (int64_t step = 0; step < trace.num_steps(); ++step) {
      for (int32_t layer = 0; layer < trace.num_layers(); ++layer) {
        kappas.push_back(kappa(trace.loads(step, layer, 1)));
      }
    }
    std::sort(kappas.begin(), kappas.end());
    EXPECT_NEAR(kappas.back(), c.most, 0.001) << c.file;
    const double low = kappas[(kappas.size() - 1) / 2];
    const double high = kappas[kappas.size() / 2];
    EXPECT_NEAR(0.5 * (low + high), c.median, 0.001) << c.file;
  }
}

TEST(RecordedData, RealFamiliesOfTheThreeModels) {
  if (!deflate_available()) GTEST_SKIP() << "SKIPPED: this build has no libzip";
  for (const char* file :
       {"glm52_prefill_counts.npz", "qwen3_30b_a3b_decode_counts.npz", "olmoe_lens_counts.npz"}) {
    const Trace trace = read_trace(data_file(file));
    const auto counts = recorded_counts(trace);
    double before = 1.0;
    for (const auto family :
         {RouteFamily::kRealMedian, RouteFamily::kRealHigh, RouteFamily::kRealExtreme}) {
      const RouteSet set = make_routes({.family = family,
                                        .num_experts = trace.meta().num_experts,
                                        .topk = trace.meta().topk,
                                        .num_ranks = 8,
                                        .tokens_per_rank = 1024,
                                        .recorded_counts = counts});
      EXPECT_GT(set.figures.imbalance, before) << file;
      before = set.figures.imbalance;
    }
  }
}

}  // namespace
}  // namespace megaflux
