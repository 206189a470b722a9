// Tables that planning takes from files and from the command line.
//
// A table file holds integers separated by commas, blanks or line ends; # starts a comment that
// ends with the line. Every function throws kBadInput naming option, file, position, value and
// limit.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/plan/owners_file.h"
#include "megaflux/plan/cost_model.h"

namespace megaflux::cli {

// All integers of a table's text; `where` opens every message.
std::vector<int64_t> parse_table(const std::string& where, std::string_view text, Limits limits);

// For each of these layers E owners in [0, P): from a table file, the same for every layer, or from
// JSON with a table a layer (cli/plan/owners_file.h).
std::vector<std::vector<int32_t>> read_owners(const std::string& path, const OwnerTableSize& size,
                                              int32_t first_layer, int32_t end_layer);
// P block counts.
std::vector<int32_t> read_base_blocks(const std::string& path, int32_t num_ranks);
// P speeds in [1, 1024].
std::vector<uint16_t> read_speeds(const std::string& path, int32_t num_ranks);
// P s experts, -1 = the slot is empty; rank-major.
std::vector<int32_t> read_resident(const std::string& path, int32_t num_experts, int32_t num_ranks,
                                   int32_t replica_slots);

// E row counts of earlier steps; errors name `option`.
std::vector<int64_t> read_history(const std::string& option, const std::string& path,
                                  int32_t num_experts);
// Any number of ranks: rows of a topology, which its reader checks.
std::vector<int32_t> read_topology(const std::string& option, const std::string& path,
                                   int32_t num_ranks);

// "0-7,8-15": each range is a domain; together they hold every rank once. Returns the domain of
// each rank.
std::vector<int32_t> parse_domains(const std::string& text, int32_t num_ranks);
// "3,5-6": returns 1 for active ranks and 0 for these. At least one rank stays active.
std::vector<uint8_t> parse_inactive(const std::string& text, int32_t num_ranks);

// Fields of MachineModel as JSON text; those left out keep the values of h200. `path` is its name
// unless it gives one.
MachineModel parse_machine(std::string_view text, const std::string& path);

// All its fields, as a machine file has them.
nlohmann::ordered_json machine_json(const MachineModel& machine);
// The same as text; parse_machine reads it back.
std::string machine_text(const MachineModel& machine);

// A name that megaflux knows, or else a JSON file with fields of MachineModel, which the process
// reads once; fields left out keep the values of h200.
MachineModel read_machine(const std::string& name_or_path);

}  // namespace megaflux::cli
