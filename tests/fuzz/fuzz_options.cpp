// Words and small files of the command line; the first letter says which.
#include <cmath>
#include <tuple>

#include "cli/import/layer_list.h"
#include "cli/options.h"
#include "cli/plan/plan_tables.h"
#include "fuzz/fuzz_harness.h"

namespace megaflux::fuzz {
namespace {

auto fields_of(const MachineModel& machine) {
  return std::tie(machine.name, machine.gflops, machine.link_mb_per_s, machine.send_mb_per_s,
                  machine.plan_ns, machine.pre_gate_ns, machine.copy_latency_ns, machine.round_ns);
}

void read_machine_json(std::string_view text) {
  // Any name can be written, also one that is no UTF-8.
  cli::parse_machine(cli::machine_text({.name = std::string(text)}), "named.json");
  const MachineModel machine = cli::parse_machine(text, "fuzz.json");
  require(machine.gflops >= 1 && machine.link_mb_per_s >= 1, "limits of a machine");
  const MachineModel again = cli::parse_machine(cli::machine_text(machine), "written.json");
  require(fields_of(again) == fields_of(machine), "a machine that is written can be read");
}

void read_word(char which, const std::string& text) {
  switch (which) {
    case 'i': {
      const int64_t value = cli::parse_integer("--n", text, {-5, 1000});
      require(value >= -5 && value <= 1000, "limits of an integer");
      return;
    }
    case 'x': {
      const double value = cli::parse_decimal("--x", text, 0, 10);
      require(value >= 0 && value <= 10, "limits of a decimal");
      return;
    }
    case 't':
      for (const int64_t value : cli::parse_table("--owners: f", text, {-1, 31})) {
        require(value >= -1 && value <= 31, "limits of a table");
      }
      return;
    case 'o':
      for (const auto& owners : cli::parse_owners_json(text, "fuzz.json", {4, 2}, {0, 2})) {
        require(owners.size() == 4, "an owner for every expert");
        for (const int32_t owner : owners) require(owner >= 0 && owner < 2, "limits of owners");
      }
      return;
    case 'd':
      require(cli::parse_domains(text, 16).size() == 16, "a domain for every rank");
      return;
    case 'a':
      require(cli::parse_inactive(text, 16).size() == 16, "a mark for every rank");
      return;
    case 'l':
      require(!cli::parse_layer_list("--layers", text).empty(), "a list names layers");
      return;
    default:
      read_machine_json(text);
  }
}

}  // namespace

void fuzz_options(Bytes bytes) {
  if (bytes.empty()) return;
  const std::string_view text = text_of(bytes);
  accept_refusal([&] { read_word(text.front(), std::string(text.substr(1))); });
}

}  // namespace megaflux::fuzz
