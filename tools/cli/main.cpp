// The program megaflux: reads the command line, calls one command, turns errors into one line and a
// status.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

void print_error(std::string_view message) {
  const std::string label = paint(style_of(STDERR_FILENO), Colour::kRed, "error:");
  fmt::print(stderr, "megaflux: {} {}\n", label, message);
}

ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadInput:
    case ErrorCode::kUnsupported:
      return ExitCode::kBadInput;
    case ErrorCode::kTimeout:
    case ErrorCode::kDisagree:
    case ErrorCode::kInternal:
      return ExitCode::kCheckFailed;
  }
  return ExitCode::kCheckFailed;
}

// The parser's messages span lines in places; ours never do.
std::string first_line(std::string_view message) {
  return std::string(message.substr(0, message.find('\n')));
}

// The parser reports a missing command before an unknown one; here the word itself is named.
void check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[1].starts_with("-")) return;
  Choices commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  check_choice("command", arguments[1], commands);
}

ExitCode call(int argc, char** argv) {
  Invocation invocation;
  invocation.arguments.assign(argv, argv + argc);
  CLI::App app("MoE layers under expert parallelism without stragglers.", "megaflux");
  app.set_version_flag("--version", "megaflux " MF_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit status: 0 ok, 1 a check failed, 2 bad input.\n"
      "Example: megaflux run          one real MoE step, balanced and checked");
  add_run_command(app, invocation);
  add_plan_command(app, invocation);
  add_bench_command(app, invocation);
  add_doctor_command(app, invocation);
  check_command(app, invocation.arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_request = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (!is_request) {
      print_error(first_line(error.what()) + " (megaflux --help lists what is possible)");
      return ExitCode::kBadInput;
    }
    app.exit(error);  // prints help or version
    return ExitCode::kOk;
  }
  return invocation.action();
}

}  // namespace
}  // namespace megaflux::cli

int main(int argc, char** argv) {
  using megaflux::cli::ExitCode;
  ExitCode code = ExitCode::kCheckFailed;
  try {
    code = megaflux::cli::call(argc, argv);
  } catch (const megaflux::Error& error) {
    megaflux::cli::print_error(error.what());
    code = megaflux::cli::exit_code_of(error.code());
  } catch (const std::exception& error) {
    megaflux::cli::print_error(error.what());
  }
  return static_cast<int>(code);
}
