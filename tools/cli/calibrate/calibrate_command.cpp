// `megaflux calibrate`: measures what the gate weighs on GPUs, and writes it as a machine file.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "cli/bench/gpu_bench_options.h"
#include "cli/calibrate/calibrate_on_gpu.h"
#include "cli/command.h"
#include "cli/gpu/gpu_backend.h"
#include "cli/gpu/gpu_memory.h"
#include "cli/json_output.h"
#include "cli/option_names.h"
#include "cli/options.h"
#include "cli/plan/plan_tables.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "megaflux/base/check.h"
#include "megaflux/layer/mega/mega_config.h"
#include "megaflux/moe/limits.h"
#include "megaflux/moe/owner_table.h"
#include "megaflux/moe/route_family.h"
#include "megaflux/moe/work_list.h"
#include "megaflux/plan/cost_rules.h"

namespace megaflux::cli {
namespace {

// As calibrate() takes at least.
constexpr int32_t kLeastSlots = 2;

struct CalibrateOptions {
  LayerShape shape = {.num_experts = 128, .topk = 8, .hidden = 4096, .inter = 1536};
  PlanDims dims = {.num_ranks = 8, .replica_slots = 2, .block_rows = kTileRows};
  int32_t tokens = 4096;
  int32_t num_devices = 1;
  int32_t num_sms = 0;
  std::string name;
  std::string machine_file;
};

MegaConfig layer_on(const CalibrateOptions& options, int32_t sms_of_a_rank) {
  return resolve_config({.shape = options.shape,
                         .num_ranks = options.dims.num_ranks,
                         .replica_slots = options.dims.replica_slots,
                         .max_tokens = options.tokens,
                         .num_sms = options.num_sms},
                        sms_of_a_rank);
}

// What calibrate() would refuse when a device has been looked for and weights have been drawn.
void check_routing(const CalibrateOptions& options) {
  const RouteRequest hot = {.family = RouteFamily::kHot15,
                            .num_experts = options.shape.num_experts,
                            .topk = options.shape.topk,
                            .num_ranks = options.dims.num_ranks,
                            .tokens_per_rank = options.tokens};
  MF_CHECK(hot.num_experts >= hot.num_ranks, "--experts: ", hot.num_experts, " for --ranks ",
           hot.num_ranks, ", a rank owns at least one expert");
  check_request(hot);
  try {
    route_totals(hot);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("--topk: {} of --experts {} on --ranks {}: {}", hot.topk,
                                          hot.num_experts, hot.num_ranks, error.what()));
  }
}

void check_options(const CalibrateOptions& options) {
  check_output("--out", options.machine_file);
  check_dealing(options.dims.num_ranks, options.num_devices);
  layer_on(options, std::max(1, options.num_sms));  // one SM a rank, which any device has
  check_routing(options);
}

PlanConfig plan_of(const CalibrateOptions& options) {
  PlanConfig plan;
  plan.dims = options.dims;
  plan.dims.num_experts = options.shape.num_experts;
  plan.owner_of = contiguous_owners(plan.dims.num_experts, plan.dims.num_ranks);
  return plan;
}

void check_memory(const CalibrationCase& layer, const MegaConfig& config, int32_t device_sms) {
  DeviceNeeds needs(static_cast<size_t>(layer.device_of.back()) + 1);
  add_weights(layer.shape, layer.plan.owner_of, layer.device_of, needs);
  add_session(config, layer.plan, device_sms, layer.device_of, needs);
  require_memory("calibrate", needs);
}

std::string default_name(const CalibrateOptions& options, const GpuDevice& device) {
  return fmt::format("{} x {}, {} ranks, H {} I {}", options.num_devices, device.name,
                     options.dims.num_ranks, options.shape.hidden, options.shape.inter);
}

void print_machine(const CalibrateOptions& options, const MachineModel& machine) {
  const TextStyle style = style_of(STDOUT_FILENO);
  const CostModel cost =
      make_cost_model(machine, options.shape, options.dims.block_rows, CostScope::kForward);
  const auto in = [](auto value, double unit) { return static_cast<double>(value) / unit; };
  const double block_us = in(cost.block_ps, 1e6);
  const double copy_us = in(cost.weight_bytes, static_cast<double>(cost.link_bytes_per_us));
  fmt::print("{}\n", paint(style, Colour::kBold, printable(machine.name)));
  fmt::print("a block of {} rows       {:>9.2f} us  {:.0f} TFLOP/s\n", options.dims.block_rows,
             block_us, in(machine.gflops, 1e3));
  fmt::print(
      "weights of a replica      {:>9.2f} us  {:.0f} GB/s, and {:.2f} us for the first byte\n",
      copy_us, in(machine.link_mb_per_s, 1e3), in(machine.copy_latency_ns, 1e3));
  const double sent_us = in(cost.weight_bytes, static_cast<double>(send_rate(cost)));
  fmt::print("the same, out of its owner{:>9.2f} us  {:.0f} GB/s where several pull\n", sent_us,
             in(cost.weight_bytes, 1e3 * sent_us));
  fmt::print("a head that searches      {:>9.2f} us\n", in(machine.plan_ns, 1e3));
  fmt::print("one that does not         {:>9.2f} us\n", in(machine.pre_gate_ns, 1e3));
  fmt::print("a fresh replica pays from {:>9.0f} blocks on, if nothing hides its weights\n",
             copy_us / block_us);
}

ExitCode run_calibrate(const CalibrateOptions& options) {
  check_options(options);
  check_has_cuda("calibrate");
  GpuDevice device;
  for (int32_t ordinal = 0; ordinal < options.num_devices; ++ordinal) {
    device = require_gpu("calibrate", ordinal);
  }
  CalibrationCase layer = {.shape = options.shape,
                           .plan = plan_of(options),
                           .tokens = options.tokens,
                           .num_sms = options.num_sms,
                           .device_of = deal_ranks(options.dims.num_ranks, options.num_devices)};
  const int32_t sms_of_a_rank = device.num_sms / most_hosted(layer.device_of);
  check_memory(layer, layer_on(options, sms_of_a_rank), device.num_sms);
  MachineModel machine = calibrate_on_gpu(layer);
  machine.name = options.name.empty() ? default_name(options, device) : options.name;
  if (!is_stdout(options.machine_file)) print_machine(options, machine);
  write_text("--out", options.machine_file, machine_text(machine));
  return ExitCode::kOk;
}

void add_options(CLI::App& app, CalibrateOptions& options) {
  LayerShape& shape = options.shape;
  add_integer(app, "--ranks", options.dims.num_ranks, {2, kMaxRanks}, "ranks, P");
  add_integer(app, "--devices", options.num_devices, {1, kMaxRanks},
              "devices, from ordinal 0 on, that the ranks are dealt to");
  add_integer(app, "--hidden", shape.hidden, {1, 65536}, "H, elements of a token");
  add_integer(app, "--inter", shape.inter, {1, 65536}, "I, channels of an expert");
  add_integer(app, "--experts", shape.num_experts, {1, kMaxExperts}, "experts, E");
  add_integer(app, "--topk", shape.topk, {1, kMaxTopk}, "experts a token, K");
  add_integer(app, "--tokens", options.tokens, {1, 1 << 20}, "tokens a rank, T");
  add_integer(app, "--slots", options.dims.replica_slots, {kLeastSlots, kMaxDeviceSlots},
              "replica slots a rank, s; transfers of two sizes take two");
  add_integer(app, "--num-sms", options.num_sms, {0, 1024},
              "SMs of a rank; 0 = those of a device, dealt out evenly");
  app.add_option("--name", options.name, "of the machine; default: device, ranks and shape")
      ->type_name("TEXT");
  app.add_option("--out", options.machine_file, "machine file to write, - = standard output")
      ->type_name("FILE");
}

}  // namespace

void add_calibrate_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* calibrate = app.add_subcommand(
      "calibrate",
      "Measure on GPUs what a block, a copy and a plan cost, for the cost objective; needs a build "
      "with CUDA.");
  add_options(*calibrate, *options);
  calibrate->footer(
      "Example: megaflux calibrate --ranks 8 --devices 2 --out machine.json\n"
      "         megaflux bench forward --ranks 8 --devices 2 --objective cost --machine "
      "machine.json");
  calibrate->callback([options, &invocation] {
    invocation.action = [options] {
      OptionNames names = gpu_bench_names();
      names.push_back({"num_sms", "--num-sms"});
      return naming_options(names, [&] { return run_calibrate(*options); });
    };
  });
}

}  // namespace megaflux::cli
