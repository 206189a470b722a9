// `megaflux doctor`: what this machine offers, and what each backend does with it.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/doctor/backends.h"
#include "cli/doctor/machine_probe.h"
#include "cli/gpu/gpu_backend.h"
#include "cli/json_output.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/text_format.h"

namespace megaflux::cli {
namespace {

Json cpu_json(const CpuFacts& cpu) {
  Json isa = Json::object();
  for (const IsaExtension& extension : cpu.isa) isa[extension.name] = extension.is_present;
  return {{"model", cpu.model},
          {"cores", cpu.num_cores},
          {"isa", isa},
          {"memory_bytes", cpu.memory_bytes},
          {"available_memory_bytes", cpu.available_memory_bytes}};
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json device_json(const GpuDevice& device) {
  Json peers = Json::array();
  for (const uint8_t is_reached : device.peers) peers.push_back(is_reached != 0);
  return {{"name", device.name},
          {"uuid", device.uuid},
          {"compute_capability", fmt::format("{}.{}", device.compute_major, device.compute_minor)},
          {"sms", device.num_sms},
          {"memory_bytes", device.memory_bytes},
          {"supported", device.is_supported},
          {"peers", peers}};
}

Json cuda_json(const CudaFacts& cuda, const GpuFacts& gpus) {
  Json devices = Json::array();
  for (const GpuDevice& device : gpus.devices) devices.push_back(device_json(device));
  return {{"driver", text_or_null(cuda.driver)},
          {"gpus", cuda.gpus},
          {"nvcc", text_or_null(cuda.nvcc)},
          {"nccl", text_or_null(cuda.nccl)},
          {"nccl_path", text_or_null(cuda.nccl_path)},
          {"nccl_obstacle", text_or_null(cuda.nccl_obstacle)},
          {"in_build", has_cuda()},
          {"runtime", text_or_null(gpus.runtime)},
          {"driver_cuda", text_or_null(gpus.driver_cuda)},
          {"obstacle", text_or_null(gpus.obstacle)},
          {"devices", devices}};
}

Json backend_json(const Backend& backend) {
  Json features = Json::array();
  for (const Feature& feature : backend.features) {
    features.push_back(
        {{"name", feature.name}, {"supported", feature.is_supported}, {"detail", feature.detail}});
  }
  return {{"name", backend.name},
          {"available", backend.is_available},
          {"reason", text_or_null(backend.reason)},
          {"features", features}};
}

// Everything that a report says.
struct Findings {
  CpuFacts cpu;
  CudaFacts cuda;
  GpuFacts gpus;
  std::vector<Backend> backends;  // those asked for
};

Json doctor_json(const Findings& found) {
  Json list = Json::array();
  for (const Backend& backend : found.backends) list.push_back(backend_json(backend));
  return {{"schema", "megaflux.doctor/1"}, {"version", MF_VERSION},
          {"cpu", cpu_json(found.cpu)},    {"cuda", cuda_json(found.cuda, found.gpus)},
          {"gemm", gemm_name()},           {"backends", list}};
}

void print_fact(const std::string& name, const std::string& value) {
  fmt::print("  {:<9} {}\n", name, value);
}

std::string isa_text(const TextStyle& style, const CpuFacts& cpu) {
  std::string text;
  for (const IsaExtension& extension : cpu.isa) {
    if (!text.empty()) text += "  ";
    text += extension.name + " " + yes_or_no(style, extension.is_present);
  }
  return text;
}

void print_machine(const TextStyle& style, const CpuFacts& cpu, const CudaFacts& cuda) {
  fmt::print("{}\n", paint(style, Colour::kBold, "This machine"));
  print_fact("CPU", fmt::format("{}, {} usable", cpu.model, plural(cpu.num_cores, "core")));
  print_fact("ISA", isa_text(style, cpu));
  print_fact("memory", fmt::format("{}, {} available", bytes_text(cpu.memory_bytes),
                                   bytes_text(cpu.available_memory_bytes)));
  print_fact("GEMM", gemm_name());
  std::string gpus = cuda.gpus.empty() ? "none found" : plural(cuda.gpus.size(), "device");
  for (const std::string& model : cuda.gpus) gpus += fmt::format("{}{}", separator(style), model);
  print_fact("GPU", gpus);
  print_fact("driver", cuda.driver.empty() ? "no NVIDIA driver loaded" : cuda.driver);
  print_fact("nvcc", cuda.nvcc.empty() ? "not on PATH" : cuda.nvcc);
  print_fact("NCCL", cuda.nccl.empty() ? "none that can be used" : cuda.nccl);
}

void print_backend(const TextStyle& style, const Backend& backend) {
  const std::string state = backend.is_available ? paint(style, Colour::kGreen, "available")
                                                 : paint(style, Colour::kYellow, "not available");
  fmt::print("\n{} {}{}\n", paint(style, Colour::kBold, "Backend " + backend.name + ":"), state,
             backend.reason.empty() ? "" : ", " + backend.reason);
  for (const Feature& feature : backend.features) {
    fmt::print("  {:<18} {}{} {}\n", feature.name, yes_or_no(style, feature.is_supported),
               feature.is_supported ? " " : "  ", feature.detail);
  }
}

// `asked` empty = every backend.
ExitCode run_doctor(const std::string& asked, const std::string& json_target) {
  check_output("--json", json_target);
  if (asked == "cuda") check_has_cuda("--backend cuda");
  Findings found{.cpu = probe_cpu(),
                 .cuda = probe_cuda(),
                 .gpus = has_cuda() ? probe_gpus() : GpuFacts(),
                 .backends = {}};
  for (Backend& backend : describe_backends(found.cuda, found.gpus)) {
    if (asked.empty() || backend.name == asked) found.backends.push_back(std::move(backend));
  }
  if (!is_stdout(json_target)) {
    const TextStyle style = style_of(STDOUT_FILENO);
    print_machine(style, found.cpu, found.cuda);
    for (const Backend& backend : found.backends) print_backend(style, backend);
  }
  write_json(json_target, doctor_json(found));
  const bool is_there = std::all_of(found.backends.begin(), found.backends.end(),
                                    [](const Backend& backend) { return backend.is_available; });
  return asked.empty() || is_there ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace

void add_doctor_command(CLI::App& app, Invocation& invocation) {
  auto backend = std::make_shared<std::string>();
  auto json_target = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "doctor", "What this machine offers, what each backend supports and why not.");
  add_choice(*command, "--backend", *backend, {"cpu", "cuda"},
             "this backend alone; status 1 if it is not available here")
      ->default_str("");
  add_json(*command, *json_target);
  command->footer(
      "Example: megaflux doctor\n"
      "         megaflux doctor --backend cuda\n"
      "         megaflux doctor --json -");
  command->callback([&invocation, backend, json_target] {
    invocation.action = [backend, json_target] { return run_doctor(*backend, *json_target); };
  });
}

}  // namespace megaflux::cli
