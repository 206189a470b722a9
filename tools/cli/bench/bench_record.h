// Lines of schema megaflux.result/1, one figure each.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "megaflux/plan/cost_model.h"

// The parser's header is large; only the files that define options include it.
namespace CLI {
class App;
}  // namespace CLI

namespace megaflux::cli {

struct Invocation;

struct Figure {
  std::string name;
  std::string unit;
  double value = 0;
  const std::vector<double>* samples = nullptr;
  // In their place where two sides are compared: [baseline, ours].
  const std::vector<std::array<double, 2>>* pairs = nullptr;
  // In their place where a part is held against a whole: [with, without, the whole].
  const std::vector<std::array<double, 3>>* triples = nullptr;
};

// Where, of which commit and how a figure was measured.
struct BenchSource {
  std::string place_key;  // "cpu" or "gpu_uuid"
  std::string place;
  std::string commit;
  std::string command;
  std::optional<MachineModel> machine = {};  // that the figure's plan was predicted for
};

std::string bench_line(const Figure& figure, const std::string& case_name,
                       const BenchSource& source);
// The same without its schema, as a line of bench/results: appended to the file `path`, or nothing
// if that is empty. Throws kBadInput naming --out and the path.
void append_result(const std::string& path, const Figure& figure, const std::string& case_name,
                   const BenchSource& source);
// "megaflux bench plan ...", whatever path the program was called by; of absolute paths, the
// folders of one machine, the last part alone.
std::string command_line(const std::vector<std::string>& arguments);

// `bench head` and `bench forward`.
void add_head_bench(CLI::App& bench, Invocation& invocation);
void add_forward_bench(CLI::App& bench, Invocation& invocation);

}  // namespace megaflux::cli
