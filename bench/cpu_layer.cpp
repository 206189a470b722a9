// The CPU layer against oneDNN's plain GEMM rate on the same 128-row shapes, in the same run.
//
// Balanced routing, bf16, two ranks, every tile full. A pair is one run of the GEMMs alone, one
// thread a rank, and one launch of the layer: entry, dispatch, GEMMs, activations, combine and
// exit. The figure is the median of GEMM time over layer time.
//
//   cpu_layer [--hidden 2048] [--inter 1408] [--tokens 1024] [--pairs 7] [--commit HASH] [--out
//   FILE]
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "megaflux/base/check.h"
#include "megaflux/base/rng.h"
#include "megaflux/layer/cpu/vector_loops.h"
#include "megaflux/session/session.h"

namespace megaflux::bench {
namespace {

constexpr int32_t kRanks = 2;
constexpr int32_t kExperts = 8;
constexpr int32_t kTopk = 2;
// Both sides of a pair, also on CPUs with bf16 instructions.
const GemmBackend kBackend = choose_gemm_backend(DType::kFp32);

struct Options {
  int32_t hidden = 2048, inter = 1408, tokens = 1024, pairs = 7;
  std::string commit, out, command;
};

struct Milliseconds {
  double wall = 0;
  double cpu = 0;  // summed over threads
};

double now_ms() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(time).count();
}

std::vector<Bf16> random_bf16(int64_t count, float scale, uint64_t seed) {
  Rng rng(seed);
  std::vector<Bf16> values(count);
  for (Bf16& value : values) value = Bf16(rng.symmetric(scale));
  return values;
}

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = rng.symmetric(0.02f);
  return values;
}

// The layer with its tensors; all experts get equally many rows, in whole tiles.
struct LayerBench {
  explicit LayerBench(const Options& options)
      : shape{.num_experts = kExperts,
              .topk = kTopk,
              .hidden = options.hidden,
              .inter = options.inter,
              .dtype = DType::kBf16},
        tokens(options.tokens) {
    SessionConfig config;
    config.shape = shape;
    config.max_tokens = tokens;
    config.plan.planner = PlannerKind::kFixed;
    config.plan.dims = {kExperts, kRanks, 0, 128};
    config.gemm = kBackend;
    session = std::make_unique<Session>(config);
    const int64_t owned = kExperts / kRanks;
    const int64_t elements = int64_t{tokens} * shape.hidden;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      w1[rank] = random_bf16(owned * shape.w1_elements(), 0.03f, 10 + rank);
      w2[rank] = random_bf16(owned * shape.w2_elements(), 0.03f, 20 + rank);
      session->set_weights(0, rank, {.w1 = w1[rank].data(), .w2 = w2[rank].data()});
      x[rank] = random_bf16(elements, 1.0f, 30 + rank);
      dy[rank] = random_bf16(elements, 1.0f, 40 + rank);
      y[rank].resize(elements);
      dx[rank].resize(elements);
      dp[rank].resize(int64_t{tokens} * kTopk);
      d_w1[rank].resize(owned * shape.w1_elements());
      d_w2[rank].resize(owned * shape.w2_elements());
      for (int32_t pair = 0; pair < tokens * kTopk; ++pair) ids[rank].push_back(pair % kExperts);
      weights[rank].assign(int64_t{tokens} * kTopk, 0.5f);
      routing[rank] = {.num_tokens = tokens,
                       .topk = kTopk,
                       .topk_ids = ids[rank].data(),
                       .topk_weights = weights[rank].data()};
      x_at[rank] = x[rank].data();
      dy_at[rank] = dy[rank].data();
      y_at[rank] = y[rank].data();
      dx_at[rank] = dx[rank].data();
      dp_at[rank] = dp[rank].data();
      gradients[rank] = {.w1 = d_w1[rank].data(), .w2 = d_w2[rank].data()};
    }
  }

  // Of the last launch, head not included.
  Milliseconds time() const {
    Milliseconds ms{.wall = static_cast<double>(report.layer_ns) * 1e-6};
    for (const RankReport& rank : report.ranks) {
      ms.cpu += static_cast<double>(rank.compute_cpu_ns + rank.comm_cpu_ns) * 1e-6;
    }
    return ms;
  }

  // Forward and backward.
  std::pair<Milliseconds, Milliseconds> step() {
    ForwardContext context = session->forward({.routing = routing, .x = x_at, .y = y_at}, report);
    const Milliseconds forward = time();
    session->backward(context, {.dy = dy_at, .dx = dx_at, .dp = dp_at, .gradients = gradients},
                      report);
    return {forward, time()};
  }

  int32_t tiles_per_rank() const { return report.ranks[0].tiles; }

  LayerShape shape;
  int32_t tokens;
  std::unique_ptr<Session> session;
  StepReport report;
  std::vector<Bf16> w1[kRanks], w2[kRanks], x[kRanks], dy[kRanks], y[kRanks], dx[kRanks];
  std::vector<float> dp[kRanks], d_w1[kRanks], d_w2[kRanks], weights[kRanks];
  std::vector<int32_t> ids[kRanks];
  RoutingView routing[kRanks];
  const void *x_at[kRanks], *dy_at[kRanks];
  void *y_at[kRanks], *dx_at[kRanks];
  float* dp_at[kRanks];
  GradientOutput gradients[kRanks];
};

// The GEMMs of one rank's tiles and nothing else, on weights of as many experts as the rank owns.
struct PlainGemms {
  PlainGemms(const LayerShape& shape, int32_t num_experts)
      : rows(random_floats(int64_t{128} * std::max(shape.hidden, 2 * shape.inter), 1)),
        result(rows.size()),
        w1(random_floats(num_experts * shape.w1_elements(), 2)),
        w2(random_floats(num_experts * shape.w2_elements(), 3)),
        d_w1(w1.size()),
        d_w2(w2.size()) {
    const int64_t hidden = shape.hidden;
    const int64_t inter = shape.inter;
    const auto make = [](const GemmShape& gemm) { return Gemm(kBackend, gemm); };
    forward.push_back(make({.m = 128, .n = 2 * inter, .k = hidden, .is_b_transposed = true}));
    forward.push_back(make({.m = 128, .n = hidden, .k = inter, .is_b_transposed = true}));
    backward.push_back(make({.m = 128, .n = hidden, .k = 2 * inter}));
    backward.push_back(make({.m = 128, .n = inter, .k = hidden}));
    for (const bool is_accumulating : {false, true}) {
      backward.push_back(make({.m = 2 * inter,
                               .n = hidden,
                               .k = 128,
                               .is_a_transposed = true,
                               .is_accumulating = is_accumulating}));
      backward.push_back(make({.m = hidden,
                               .n = inter,
                               .k = 128,
                               .is_a_transposed = true,
                               .is_accumulating = is_accumulating}));
    }
  }

  void run_forward_tile(int64_t first_w1, int64_t first_w2) {
    forward[0].run(rows.data(), w1.data() + first_w1, result.data());
    forward[1].run(rows.data(), w2.data() + first_w2, result.data());
  }
  void run_backward_tile(int64_t first_w1, int64_t first_w2, bool is_first) {
    backward[0].run(rows.data(), w1.data() + first_w1, result.data());
    backward[1].run(rows.data(), w2.data() + first_w2, result.data());
    const int gradient = is_first ? 2 : 4;
    backward[gradient].run(rows.data(), result.data(), d_w1.data() + first_w1);
    backward[gradient + 1].run(rows.data(), result.data(), d_w2.data() + first_w2);
  }

  std::vector<float> rows, result, w1, w2, d_w1, d_w2;
  std::vector<Gemm> forward, backward;
};

// All ranks' threads run the GEMMs of their tiles.
Milliseconds gemm_time(std::vector<PlainGemms>& ranks, const LayerShape& shape, int32_t tiles,
                       bool is_backward) {
  const int32_t experts = kExperts / kRanks;
  const int32_t tiles_per_expert = tiles / experts;
  std::barrier start(kRanks + 1);
  std::atomic<int64_t> cpu_ns{0};
  std::vector<std::jthread> threads;
  for (PlainGemms& gemms : ranks) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      const int64_t cpu_begin = thread_cpu_ns();
      for (int32_t tile = 0; tile < tiles; ++tile) {
        const int64_t expert = tile / tiles_per_expert;
        const int64_t first_w1 = expert * shape.w1_elements();
        const int64_t first_w2 = expert * shape.w2_elements();
        if (is_backward) {
          gemms.run_backward_tile(first_w1, first_w2, tile % tiles_per_expert == 0);
        } else {
          gemms.run_forward_tile(first_w1, first_w2);
        }
      }
      cpu_ns += thread_cpu_ns() - cpu_begin;
    });
  }
  start.arrive_and_wait();
  const double begin = now_ms();
  threads.clear();
  const double wall = now_ms() - begin;
  return {wall, static_cast<double>(cpu_ns) * 1e-6};
}

std::string quoted(const std::string& text) {
  std::string out;
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
  return out;
}

std::string iso_time() {
  const std::time_t now = std::time(nullptr);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

using Pairs = std::vector<std::pair<Milliseconds, Milliseconds>>;

// One figure: the median over the pairs of what `part` reads off GEMMs and layer.
void report(const Options& options, const char* op, const Pairs& pairs, const char* figure,
            double Milliseconds::*part) {
  std::vector<double> shares;
  std::string samples;
  for (const auto& [gemm, layer] : pairs) {
    shares.push_back(gemm.*part / layer.*part);
    char text[64];
    std::snprintf(text, sizeof(text), "%s[%.2f, %.2f]", samples.empty() ? "" : ", ", gemm.*part,
                  layer.*part);
    samples += text;
  }
  std::sort(shares.begin(), shares.end());
  const double median = shares[shares.size() / 2];
  std::string key = "op=";
  key += op;
  key += ",H=" + std::to_string(options.hidden) + ",I=" + std::to_string(options.inter);
  key += ",E=8,K=2,P=2,T=" + std::to_string(options.tokens);
  key += ",s=0,route=balanced,planner=fixed,exec=cpu";
  std::printf("%-88s %-14s %.3f (least %.3f, most %.3f)\n", key.c_str(), figure, median,
              shares.front(), shares.back());
  if (options.out.empty()) return;
  std::ofstream out(options.out, std::ios::app);
  char value[32];
  std::snprintf(value, sizeof(value), "%.4f", median);
  out << "{\"figure\": " << quoted(figure) << ", \"value\": " << value
      << ", \"unit\": \"GEMM time / layer time\", \"case\": " << quoted(key) << ", \"samples\": ["
      << samples << "], \"clock\": " << quoted(iso_time()) << ", \"cpu\": " << quoted(cpu_name())
      << ", \"commit\": " << quoted(options.commit) << ", \"command\": " << quoted(options.command)
      << "}\n";
}

void run(const Options& options) {
  LayerBench layer(options);
  layer.step();
  layer.step();
  const int32_t tiles = layer.tiles_per_rank();
  MF_CHECK(tiles * 128 == options.tokens * kTopk, "tokens: ", options.tokens,
           " leaves tiles that are not full; take a multiple of 512");
  std::printf("%s, %d tiles a rank\n",
              std::string(gemm_backend_name(layer.session->layer_config().gemm)).c_str(), tiles);
  std::vector<PlainGemms> gemms;
  for (int32_t rank = 0; rank < kRanks; ++rank) gemms.emplace_back(layer.shape, kExperts / kRanks);
  gemm_time(gemms, layer.shape, tiles, false);
  Pairs forward, backward;
  for (int32_t i = 0; i < options.pairs; ++i) {
    const Milliseconds plain_forward = gemm_time(gemms, layer.shape, tiles, false);
    const auto [layer_forward, layer_backward] = layer.step();
    const Milliseconds plain_backward = gemm_time(gemms, layer.shape, tiles, true);
    forward.emplace_back(plain_forward, layer_forward);
    backward.emplace_back(plain_backward, layer_backward);
  }
  report(options, "forward", forward, "gemm_share", &Milliseconds::wall);
  report(options, "forward", forward, "gemm_cpu_share", &Milliseconds::cpu);
  report(options, "backward", backward, "gemm_share", &Milliseconds::wall);
  report(options, "backward", backward, "gemm_cpu_share", &Milliseconds::cpu);
}

}  // namespace
}  // namespace megaflux::bench

int main(int argc, char** argv) {
  megaflux::bench::Options options;
  for (int i = 0; i < argc; ++i) {
    if (i > 0) options.command += ' ';
    options.command += argv[i];
  }
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    const std::string value = argv[i + 1];
    if (word == "--hidden") options.hidden = std::atoi(value.c_str());
    if (word == "--inter") options.inter = std::atoi(value.c_str());
    if (word == "--tokens") options.tokens = std::atoi(value.c_str());
    if (word == "--pairs") options.pairs = std::atoi(value.c_str());
    if (word == "--commit") options.commit = value;
    if (word == "--out") options.out = value;
  }
  try {
    megaflux::bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cpu_layer: %s\n", error.what());
    return 2;
  }
  return 0;
}
