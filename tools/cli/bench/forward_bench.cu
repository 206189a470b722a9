#include "cli/bench/forward_bench.h"

#include <istream>
#include <memory>
#include <ostream>
#include <string>

#include "cli/bench/forward_memory.h"
#include "cli/bench/layer_rig_cuda.h"

namespace megaflux::cli {
namespace {

constexpr int32_t kMostLaunches = 10000;

// The first runs of a case; forward_needs() knows what they take.
class ForwardRigs {
 public:
  ForwardRigs(const ForwardBenchCase& bench_case, size_t num_runs)
      : runs_(std::span(bench_case.runs).first(num_runs)) {
    for (const ForwardRun& run : runs_) {
      std::shared_ptr<LayerRig> rig = rig_of(run);
      if (rig == nullptr) rig = make_rig(bench_case, run);
      rigs_.push_back(std::move(rig));
    }
  }
  size_t size() const { return rigs_.size(); }
  // The rig of a run, which launches as that run wants it until another one is asked for.
  LayerRig& of_run(size_t i) {
    rigs_[i]->set_transfer(runs_[i].transfer);
    return *rigs_[i];
  }

 private:
  std::shared_ptr<LayerRig> rig_of(const ForwardRun& run) const {
    for (size_t i = 0; i < rigs_.size(); ++i) {
      if (share_rig(runs_[i], run)) return rigs_[i];
    }
    return nullptr;
  }
  std::shared_ptr<RandomWeights> weights_of(const ForwardRun& run) const {
    for (size_t i = 0; i < rigs_.size(); ++i) {
      if (share_weights(runs_[i], run)) return rigs_[i]->weights();
    }
    return nullptr;
  }
  std::shared_ptr<LayerRig> make_rig(const ForwardBenchCase& bench_case, const ForwardRun& run) {
    std::shared_ptr<RandomWeights> weights = weights_of(run);
    if (weights == nullptr) {
      weights = std::make_shared<RandomWeights>(bench_case.shape, run.plan.owner_of,
                                                bench_case.device_of);
    }
    DeviceSessionConfig config;
    config.shape = bench_case.shape;
    config.plan = run.plan;
    config.pool_rows = bench_case.pool_rows;
    config.num_sms = bench_case.num_sms;
    config.lag_waves = bench_case.lag_waves;
    return std::make_shared<LayerRig>(config, bench_case.device_of, weights, run.routing);
  }

  std::span<const ForwardRun> runs_;
  std::vector<std::shared_ptr<LayerRig>> rigs_;  // of each run
};

void check_bits(const ForwardBenchCase& bench_case, ForwardRigs& rigs) {
  const std::span<const Routing> routing = bench_case.runs[0].routing;
  const auto first = rigs.of_run(0).outputs(0xa0);
  for (size_t i = 1; i < rigs.size(); ++i) {
    if (bench_case.runs[i].routing.data() != routing.data()) continue;
    // Other poison: what neither has written differs.
    MF_INVARIANT(rigs.of_run(i).outputs(static_cast<uint8_t>(0xa0 + i)) == first, "y of run ", i,
                 " differs from that of the first run, over the same routing");
  }
}

}  // namespace

ForwardBenchFigures bench_forward(const ForwardBenchCase& bench_case) {
  ForwardRigs rigs(bench_case, bench_case.runs.size());
  check_bits(bench_case, rigs);
  const TimeLaunches time = [&](size_t i, int32_t launches, int32_t untimed) {
    return rigs.of_run(i).run(LaunchKind::kLayer, launches, untimed);
  };
  const PairPace pace = pair_pace(time(0, pair_pace(time(0, 3, 0)).warm_up, 0));
  ForwardBenchFigures figures;
  figures.launches = pace.num_turns * pace.turn;
  for (size_t i = 0; i < rigs.size(); ++i) {
    figures.runs.push_back(
        {.plan = rigs.of_run(i).plan(), .ms = time_pairs(time, i, bench_case.samples, pace)});
  }
  return figures;
}

void serve_forward(const ForwardBenchCase& bench_case, std::istream& in, std::ostream& out) {
  ForwardRigs rigs(bench_case, 1);
  out << "ready" << std::endl;
  out.precision(9);
  std::string what;
  for (int32_t launches = 0, lead = 0; in >> what >> launches >> lead;) {
    MF_CHECK(what == "gemms" || what == "layer", "input: ", what, " is neither gemms nor layer");
    MF_CHECK(launches >= 1 && launches <= kMostLaunches, "input: ", what, " ", launches,
             " is outside [1, ", kMostLaunches, "]");
    MF_CHECK(lead >= 0 && lead <= kMostLaunches, "input: ", what, " ", launches, " ", lead,
             " is outside [0, ", kMostLaunches, "]");
    const auto kind = what == "gemms" ? LaunchKind::kGemms : LaunchKind::kLayer;
    out << rigs.of_run(0).run(kind, launches, lead) << std::endl;
  }
  MF_CHECK(in.eof(), "input: a line is no word and two numbers");
}

}  // namespace megaflux::cli
