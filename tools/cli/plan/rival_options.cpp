#include "cli/plan/rival_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/plan/plan_tables.h"
#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

constexpr int64_t kMaxRows = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxRate = 1'000'000'000;
constexpr int64_t kMaxSide = 1 << 16;

// What a knob is set from.
struct Given {
  std::string option;  // "--rival: llep.alpha"
  std::string value;
  const PlanConfig& config;
};

struct Knob {
  std::string key;
  Choices planners;    // those that read it
  std::string values;  // and the default
  void (*set)(const Given&, BaselineConfig&);
};

template <typename Int = int32_t>
Int integer(const Given& given, int64_t least, int64_t most) {
  return static_cast<Int>(parse_integer(given.option, given.value, {least, most}));
}

// Millionths of a decimal.
int32_t ppm(const Given& given, double least, double most) {
  return static_cast<int32_t>(
      std::lround(parse_decimal(given.option, given.value, least, most) * 1e6));
}

template <typename Enum>
Enum choice(const Given& given, const Choices& names) {
  check_choice(given.option, given.value, names);
  return static_cast<Enum>(std::find(names.begin(), names.end(), given.value) - names.begin());
}

// Ranks that a domain may plan with; a topology has one row for each.
std::vector<int32_t> domain_sizes(const PlanConfig& config) {
  std::vector<std::pair<int32_t, int32_t>> sizes;
  for (int32_t rank = 0; rank < config.dims.num_ranks; ++rank) {
    if (!config.active.empty() && config.active[rank] == 0) continue;
    const int32_t domain = config.domain_of.empty() ? 0 : config.domain_of[rank];
    const auto known = std::find_if(sizes.begin(), sizes.end(),
                                    [&](const auto& size) { return size.first == domain; });
    if (known == sizes.end()) {
      sizes.emplace_back(domain, 1);
    } else {
      ++known->second;
    }
  }
  std::vector<int32_t> counts;
  for (const auto& [domain, count] : sizes) counts.push_back(count);
  return counts;
}

// eplb and lplb.
std::vector<Knob> placement_knobs() {
  return {
      {"history",
       {"eplb", "lplb"},
       "FILE",
       [](const Given& given, BaselineConfig& to) {
         to.history = read_history(given.option, given.value, given.config.dims.num_experts);
       }},
      {"eplb.num_groups",
       {"eplb"},
       "N (1)",
       [](const Given& given, BaselineConfig& to) {
         to.eplb.num_groups = integer(given, 1, given.config.dims.num_experts);
       }},
      {"eplb.num_nodes",
       {"eplb"},
       "N (1)",
       [](const Given& given, BaselineConfig& to) {
         to.eplb.num_nodes = integer(given, 1, given.config.dims.num_ranks);
       }},
      {"eplb.selection",
       {"eplb"},
       "round-robin|each-source|nearest (round-robin)",
       [](const Given& given, BaselineConfig& to) {
         to.eplb.selection =
             choice<CopySelection>(given, {"round-robin", "each-source", "nearest"});
       }},
      {"lplb.solver",
       {"lplb"},
       "exact|interior-point (exact)",
       [](const Given& given, BaselineConfig& to) {
         to.lplb.solver = choice<LplbSolver>(given, {"exact", "interior-point"});
       }},
      {"lplb.source_of",
       {"lplb"},
       "FILE",
       [](const Given& given, BaselineConfig& to) {
         to.lplb.source_of = read_topology(given.option, given.value, given.config.dims.num_ranks);
       }},
      {"lplb.num_columns",
       {"lplb"},
       "N",
       [](const Given& given, BaselineConfig& to) {
         to.lplb.num_columns = integer(given, 1, given.config.dims.replica_slots);
       }},
  };
}

std::vector<Knob> ultraep_knobs() {
  return {
      {"ultraep.margin",
       {"ultraep"},
       "0 ... 10 (0.01)",
       [](const Given& given, BaselineConfig& to) { to.ultraep.margin_ppm = ppm(given, 0, 10); }},
      {"ultraep.threshold",
       {"ultraep"},
       "0 ... 10 (1)",
       [](const Given& given, BaselineConfig& to) {
         to.ultraep.threshold_ppm = ppm(given, 0, 10);
       }},
      {"ultraep.min_rows_per_replica",
       {"ultraep"},
       "N (1024)",
       [](const Given& given, BaselineConfig& to) {
         to.ultraep.min_rows_per_replica = integer(given, 1, kMaxRows);
       }},
      {"ultraep.owner_may_be_empty",
       {"ultraep"},
       "no|yes (no)",
       [](const Given& given, BaselineConfig& to) {
         to.ultraep.owner_may_be_empty = choice<int32_t>(given, {"no", "yes"}) == 1;
       }},
  };
}

// llep, echo and broadcast.
std::vector<Knob> row_knobs() {
  return {
      {"llep.alpha",
       {"llep"},
       "0.000001 ... 1000 (1)",
       [](const Given& given, BaselineConfig& to) { to.llep.alpha_ppm = ppm(given, 1e-6, 1000); }},
      {"llep.min_rows",
       {"llep"},
       "N (1024)",
       [](const Given& given, BaselineConfig& to) {
         to.llep.min_rows = integer(given, 1, kMaxRows);
       }},
      {"llep.gate",
       {"llep"},
       "0 ... 2147 (1.3)",
       [](const Given& given, BaselineConfig& to) { to.llep.gate_ppm = ppm(given, 0, 2147); }},
      {"echo.mode",
       {"echo"},
       "queue|one-shot (queue)",
       [](const Given& given, BaselineConfig& to) {
         to.echo.mode = choice<EchoMode>(given, {"queue", "one-shot"});
       }},
      {"echo.reclaim",
       {"echo"},
       "0 ... 10",
       [](const Given& given, BaselineConfig& to) { to.echo.reclaim_ppm = ppm(given, 0, 10); }},
      {"broadcast.gflops",
       {"broadcast"},
       "N (700000)",
       [](const Given& given, BaselineConfig& to) {
         to.broadcast.gflops = integer<int64_t>(given, 1, kMaxRate);
       }},
      {"broadcast.link_mb_per_s",
       {"broadcast"},
       "N (335000)",
       [](const Given& given, BaselineConfig& to) {
         to.broadcast.link_mb_per_s = integer<int64_t>(given, 1, kMaxRate);
       }},
      {"broadcast.hidden",
       {"broadcast"},
       "N (2048)",
       [](const Given& given, BaselineConfig& to) {
         to.broadcast.hidden = integer(given, 1, kMaxSide);
       }},
      {"broadcast.inter",
       {"broadcast"},
       "N (4096)",
       [](const Given& given, BaselineConfig& to) {
         to.broadcast.inter = integer(given, 1, kMaxSide);
       }},
  };
}

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> list = [] {
    std::vector<Knob> all;
    for (const auto& part : {placement_knobs(), ultraep_knobs(), row_knobs()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return list;
}

Choices known_keys() {
  Choices keys;
  for (const Knob& knob : knobs()) keys.push_back(knob.key);
  return keys;
}

const Knob& knob_of(const std::string& setting) {
  const size_t end = setting.find('=');
  MF_CHECK(end != std::string::npos && end > 0 && end + 1 < setting.size(), "--rival: '", setting,
           "' is no KEY=VALUE");
  const std::string key = setting.substr(0, end);
  check_choice("--rival", key, known_keys());
  return *std::find_if(knobs().begin(), knobs().end(),
                       [&](const Knob& knob) { return knob.key == key; });
}

void check_topology(const PlanConfig& config, const LplbOptions& lplb) {
  MF_CHECK(lplb.source_of.empty() == (lplb.num_columns == 0), "--rival: ",
           lplb.source_of.empty() ? "lplb.source_of is missing, lplb.num_columns"
                                  : "lplb.num_columns is missing, lplb.source_of",
           " needs both");
  if (lplb.source_of.empty()) return;
  const std::vector<int32_t> sizes = domain_sizes(config);
  const bool fits = std::any_of(sizes.begin(), sizes.end(), [&](int32_t size) {
    return lplb.source_of.size() == static_cast<size_t>(size) * lplb.num_columns;
  });
  MF_CHECK(fits, "--rival: lplb.source_of: ", lplb.source_of.size(), " values in ",
           lplb.num_columns, " columns fit no domain, of ",
           fmt::format("{}", fmt::join(sizes, ", ")), " ranks");
}

}  // namespace

void add_rival_options(CLI::App& app, RivalSettings& settings) {
  std::string help = "a knob of another system's planner, may be repeated:";
  for (const Knob& knob : knobs()) help += fmt::format("\n  {}={}", knob.key, knob.values);
  app.add_option("--rival", settings, help)
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false)
      ->group("Rivals");
}

void check_rivals(const RivalSettings& settings, const Choices& planners) {
  for (const std::string& setting : settings) {
    const Knob& knob = knob_of(setting);
    const bool is_read = std::any_of(planners.begin(), planners.end(), [&](const auto& name) {
      return std::find(knob.planners.begin(), knob.planners.end(), name) != knob.planners.end();
    });
    MF_CHECK(is_read, "--rival: ", knob.key, " is read by --planner ", join_choices(knob.planners),
             " only, ", join_choices(planners), " plans");
  }
}

BaselineConfig baselines_of(const RivalSettings& settings, const PlanConfig& config) {
  BaselineConfig baselines;
  for (const std::string& setting : settings) {
    const Knob& knob = knob_of(setting);
    const std::string value = setting.substr(setting.find('=') + 1);
    knob.set({.option = "--rival: " + knob.key, .value = value, .config = config}, baselines);
  }
  check_topology(config, baselines.lplb);
  return baselines;
}

}  // namespace megaflux::cli
