// What the commands share: exit codes, and how a parsed command line becomes a call.
#pragma once

#include <functional>
#include <string>
#include <vector>

// The parser's header is large; only the files that define options include it.
namespace CLI {
class App;
}  // namespace CLI

namespace megaflux::cli {

// Exit status of the program; docs/cli.md says the same.
enum class ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,  // the work was done, and something about its result does not hold
  kBadInput = 2,     // an argument, a file or their combination is wrong; nothing was written
};

// The command line as it was given, and the command it chose.
struct Invocation {
  std::vector<std::string> arguments;
  std::function<ExitCode()> action;  // set while parsing, called once parsing has succeeded
};

// Each adds one command to `app`; the options live as long as `invocation`.
void add_run_command(CLI::App& app, Invocation& invocation);
void add_plan_command(CLI::App& app, Invocation& invocation);
void add_simulate_command(CLI::App& app, Invocation& invocation);
void add_explain_command(CLI::App& app, Invocation& invocation);
void add_import_command(CLI::App& app, Invocation& invocation);
void add_export_command(CLI::App& app, Invocation& invocation);
void add_bench_command(CLI::App& app, Invocation& invocation);
void add_calibrate_command(CLI::App& app, Invocation& invocation);
void add_report_command(CLI::App& app, Invocation& invocation);
void add_doctor_command(CLI::App& app, Invocation& invocation);

}  // namespace megaflux::cli
