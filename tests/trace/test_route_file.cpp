#include <gtest/gtest.h>

#include "megaflux/trace/route_file.h"
#include "megaflux/trace/trace_file.h"
#include "trace/trace_fixture.h"

namespace megaflux {
namespace {

RouteRequest small_request(RouteFamily family) {
  return {.family = family,
          .num_experts = 32,
          .topk = 2,
          .num_ranks = 4,
          .tokens_per_rank = 100,
          .seed = 1};
}

TEST(RouteFile, GivesTheRoutingBackBitForBit) {
  const TempFolder folder;
  for (const RouteFamily family : {RouteFamily::kBalanced, RouteFamily::kZipfK3}) {
    const RouteRequest request = small_request(family);
    const std::string path = route_file(folder.file(""), request);
    const RouteSet set = make_routes(request);
    const Trace trace = read_trace(path);
    const auto routing = trace.routing(0, 0, 4);
    ASSERT_EQ(routing.size(), set.routing.size());
    for (size_t p = 0; p < routing.size(); ++p) {
      EXPECT_EQ(routing[p].topk_ids, set.routing[p].topk_ids);
      EXPECT_EQ(routing[p].topk_weights, set.routing[p].topk_weights);
    }
    check_claim(request, routing);
    const auto bytes = file_bytes(path);
    for (const ZipEntry& entry : parse_zip(bytes, path)) {
      EXPECT_EQ(entry.method, ZipMethod::kStored);
    }
  }
}

TEST(RouteFile, NamesSayWhatIsInside) {
  EXPECT_EQ(route_file_name(small_request(RouteFamily::kHot15)),
            "route_hot-1.5_E32_K2_P4_T100.npz");
  RouteRequest request = small_request(RouteFamily::kBalanced);
  request.seed = 7;
  EXPECT_EQ(route_file_name(request), "route_balanced_E32_K2_P4_T100_seed7.npz");
}

TEST(RouteFile, IsWrittenOnce) {
  const TempFolder folder;
  const RouteRequest request = small_request(RouteFamily::kNear);
  const std::string path = route_file(folder.file(""), request);
  const auto before = std::filesystem::last_write_time(path);
  EXPECT_EQ(route_file(folder.file(""), request), path);
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
  // Another routing under this name is not passed off as this one, nor overwritten.
  RouteRequest other = request;
  other.seed = 2;
  write_trace(path, route_trace(other, make_routes(other)), TracePacking::kStored);
  const auto bytes = file_bytes(path);
  expect_bad_input([&] { route_file(folder.file(""), request); }, {path, "another routing"});
  EXPECT_EQ(file_bytes(path), bytes);
}

TEST(RouteFile, RealFamiliesCarryTheOriginOfTheirCounts) {
  TraceData data;
  data.meta = {.num_experts = 32,
               .topk = 2,
               .layers = {0, 1},
               .model = "a model",
               .origin = "example.org/counts",
               .licence = "MIT"};
  data.num_steps = 1;
  data.load_ranks = 1;
  for (int32_t i = 0; i < 64; ++i) data.loads.push_back(100 + i % 7 * i);
  const Trace source(std::move(data));
  const auto counts = recorded_counts(source);
  EXPECT_EQ(counts, source.data().loads);
  RouteRequest request = small_request(RouteFamily::kRealExtreme);
  request.recorded_counts = counts;
  const TempFolder folder;
  const Trace trace = read_trace(route_file(folder.file(""), request, source.meta()));
  EXPECT_EQ(trace.meta().licence, "MIT");
  EXPECT_NE(trace.meta().origin.find("example.org/counts"), std::string::npos);
  EXPECT_NE(trace.meta().model.find("real-extreme of a model"), std::string::npos);
}

}  // namespace
}  // namespace megaflux
