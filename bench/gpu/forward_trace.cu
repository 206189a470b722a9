// One launch of a layer as a timeline: a file for viewers of Chrome traces, a process a CTA, a
// thread a role. The kernel is built with its trace here and nowhere else. forward_picture.py draws
// some of its CTAs.
//
//   forward_trace H I E K T FILE [P [S ROUTE]]
//
// P ranks share the GPU; a CTA's process is numbered by rank, then by its place there. With S slots
// the routing is skewed and replicas are planned, whose weights the launch pulls.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/bench/layer_rig_cuda.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"

namespace megaflux::bench {
namespace {

constexpr int32_t kRecords = 4096;  // a lane

const char* lane_name(int32_t lane) {
  constexpr const char* kNames[kTraceLanes] = {"producer", "storer", "comm", "math 0", "math 1"};
  return kNames[lane];
}

std::string span_name(const TraceRecord& record) {
  const auto of_task = [&](const char* what) {
    const int32_t place = record.index / 2;
    return std::string(what) + (record.index % 2 == 0 ? " fc1 " : " fc2 ") +
           std::to_string(place / 1024) + "." + std::to_string(place % 1024);
  };
  switch (record.kind) {
    case TraceKind::kAwait:
      return of_task("await");
    case TraceKind::kLoad:
      return of_task("load");
    case TraceKind::kStore:
      return of_task("store");
    case TraceKind::kMultiply:
      return of_task("multiply");
    case TraceKind::kFinish:
      return of_task("finish");
    case TraceKind::kBring:
      return "bring " + std::to_string(record.index);
    case TraceKind::kWeights:
      return std::string(record.index % 2 == 0 ? "w1 " : "w2 ") + std::to_string(record.index / 2);
    case TraceKind::kSum:
      return "sum " + std::to_string(record.index);
    case TraceKind::kNone:
    case TraceKind::kClock:
      break;
  }
  return "";
}

// Nanoseconds of an SM's clock, from the two clock records of a lane.
struct LaneClock {
  TraceRecord first, last;
  double ns(int64_t clock) const {
    const auto clocks = static_cast<double>(last.begin - first.begin);
    const auto elapsed = static_cast<double>(last.end - first.end);
    const double rate = clocks > 0 ? elapsed / clocks : 0;
    return static_cast<double>(first.end) + rate * static_cast<double>(clock - first.begin);
  }
};

// The spans of one lane, each behind a comma.
void write_lane(std::ofstream& out, std::span<const TraceRecord> records, int32_t cta, int32_t lane,
                double start_ns) {
  size_t count = 0;
  while (count < records.size() && records[count].kind != TraceKind::kNone) ++count;
  if (count < 2) return;
  const LaneClock clock = {records[0], records[count - 1]};
  out << ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" << cta << ",\"tid\":" << lane
      << ",\"args\":{\"name\":\"" << lane_name(lane) << "\"}}";
  for (const TraceRecord& record : records.subspan(1, count - 2)) {
    const double begin = clock.ns(record.begin) - start_ns;
    const double length = clock.ns(record.end) - clock.ns(record.begin);
    out << ",\n{\"ph\":\"X\",\"pid\":" << cta << ",\"tid\":" << lane << ",\"name\":\""
        << span_name(record) << "\",\"ts\":" << begin / 1e3 << ",\"dur\":" << length / 1e3 << "}";
  }
}

void write_trace(const std::string& path, std::span<const TraceRecord> records, int32_t num_ctas) {
  std::ofstream out(path);
  MF_CHECK(out, "FILE: ", path, " cannot be written");
  int64_t start_ns = INT64_MAX;
  for (const TraceRecord& record : records) {
    if (record.kind == TraceKind::kClock) start_ns = std::min(start_ns, record.end);
  }
  out << "{\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,"
         "\"args\":{\"sort_index\":0}}";
  for (int32_t cta = 0; cta < num_ctas; ++cta) {
    for (int32_t lane = 0; lane < kTraceLanes; ++lane) {
      const auto place = static_cast<size_t>(cta * kTraceLanes + lane) * kRecords;
      write_lane(out, records.subspan(place, kRecords), cta, lane, static_cast<double>(start_ns));
    }
  }
  out << "\n]}\n";
}

// Of the arguments H I E K.
LayerShape shape_of(char** arguments) {
  return {.num_experts = std::atoi(arguments[2]),
          .topk = std::atoi(arguments[3]),
          .hidden = std::atoi(arguments[0]),
          .inter = std::atoi(arguments[1])};
}

// What is traced: balanced routing and fixed placement, unless there are slots.
struct Traced {
  int32_t num_tokens = 0;
  int32_t num_ranks = 1;
  int32_t slots = 0;
  std::string route = "balanced";
};

void run(const LayerShape& shape, const Traced& traced, const std::string& path) {
  const int32_t num_ranks = traced.num_ranks;
  DeviceSessionConfig config;
  config.shape = shape;
  config.plan.planner = traced.slots > 0 ? PlannerKind::kMegaflux : PlannerKind::kFixed;
  config.plan.dims = {
      .num_experts = shape.num_experts, .num_ranks = num_ranks, .replica_slots = traced.slots};
  const std::vector<int32_t> device_of(num_ranks, 0);
  const RouteSet routes = make_routes({.family = route_family_from_name(traced.route),
                                       .num_experts = shape.num_experts,
                                       .topk = shape.topk,
                                       .num_ranks = num_ranks,
                                       .tokens_per_rank = traced.num_tokens});
  const auto weights = std::make_shared<cli::RandomWeights>(
      shape, contiguous_owners(shape.num_experts, num_ranks), device_of);
  cli::LayerRig layer(config, device_of, weights, routes.routing);
  const int32_t num_ctas = layer.session().config().num_sms * num_ranks;
  std::vector<TraceRecord> records(static_cast<size_t>(num_ctas) * kTraceLanes * kRecords);
  const DeviceMemory memory = DeviceMemory::copy_of(0, std::as_bytes(std::span(records)));
  layer.session().set_traces({{reinterpret_cast<TraceRecord*>(memory.data()), kRecords}});
  layer.run(cli::LaunchKind::kLayer, 1);
  MF_CUDA(cudaMemcpy(records.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost));
  write_trace(path, records, num_ctas);
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8 && argc != 10) {
    std::fprintf(stderr, "%s H I E K T FILE [P [S ROUTE]]\n", argv[0]);
    return 2;
  }
  megaflux::bench::Traced traced;
  traced.num_tokens = std::atoi(argv[5]);
  if (argc > 7) traced.num_ranks = std::atoi(argv[7]);
  if (argc > 8) {
    traced.slots = std::atoi(argv[8]);
    traced.route = argv[9];
  }
  try {
    megaflux::bench::run(megaflux::bench::shape_of(argv + 1), traced, argv[6]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
