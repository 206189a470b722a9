// The program megaflux: reads the command line, calls one command, turns errors into one line and a
// status.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/text_format.h"
#include "megaflux/base/check.h"

namespace megaflux::cli {
namespace {

// Where standard error takes nothing, the status alone has to do.
void print_error(std::string_view message) {
  const std::string label = paint(style_of(STDERR_FILENO), Colour::kRed, "error:");
  std::fputs(fmt::format("megaflux: {} {}\n", label, printable(message)).c_str(), stderr);
}

// A report that got lost must not look like success.
void check_standard_output() {
  const bool is_flushed = std::fflush(stdout) == 0;
  MF_CHECK(is_flushed && std::ferror(stdout) == 0,
           "standard output cannot be written: ", std::strerror(errno));
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

Choices commands_of(const CLI::App& app) {
  Choices commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  return commands;
}

// The parser reports a missing command before an unknown one; here the word itself is named.
void check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (size_t i = 1; i < arguments.size() && !commands_of(*command).empty(); ++i) {
    if (arguments[i].starts_with("-")) return;
    check_choice("command", arguments[i], commands_of(*command));
    command = command->get_subcommand(arguments[i]);
  }
}

// The command that the arguments chose, down to the last one: `bench plan`, not `bench`.
const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return *chosen;
}

// The first argument that the parser did not take.
std::string unexpected_argument(const CLI::App& app, const std::vector<std::string>& arguments) {
  const std::vector<std::string> left = app.remaining(true);
  const auto is_left = [&](const std::string& argument) {
    return std::find(left.begin(), left.end(), argument) != left.end();
  };
  const auto first = std::find_if(arguments.begin() + 1, arguments.end(), is_left);
  return first == arguments.end() ? left.front() : *first;
}

// An option by the letter that it has in the documents, if it has one.
std::string documented_name(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  const bool has_letter = option != nullptr && !option->get_snames().empty();
  return has_letter ? "-" + option->get_snames().front() : name;
}

// What the parser found, in our words: the argument first, then what is wrong with it.
std::string parser_message(const CLI::ParseError& error, const CLI::App& app,
                           const std::vector<std::string>& arguments) {
  const std::string message = error.what();
  const size_t end = std::min(message.find_first_of(": \n"), message.size());
  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  const CLI::App& command = chosen_command(app);
  const std::string argument = documented_name(command, message.substr(0, end));
  if (kind == CLI::ExitCodes::ExtrasError) {
    return unexpected_argument(app, arguments) + ": unknown, or one argument too many";
  }
  if (kind == CLI::ExitCodes::ArgumentMismatch) {
    return argument + (message.find("At Most") == std::string::npos ? ": its value is missing"
                                                                    : ": given more than once");
  }
  if (kind == CLI::ExitCodes::RequiredError && !command.get_subcommands({}).empty()) {
    return "command: missing, one of " + join_choices(commands_of(command)) + " expected";
  }
  return argument + message.substr(end, message.find('\n') - end);
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
  add_simulate_command(app, invocation);
  add_explain_command(app, invocation);
  add_import_command(app, invocation);
  add_export_command(app, invocation);
  add_bench_command(app, invocation);
  add_calibrate_command(app, invocation);
  add_report_command(app, invocation);
  add_doctor_command(app, invocation);
  check_command(app, invocation.arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_request = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (!is_request) {
      print_error(parser_message(error, app, invocation.arguments) +
                  " (megaflux --help lists what is possible)");
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
    megaflux::cli::check_standard_output();
  } catch (const megaflux::Error& error) {
    megaflux::cli::print_error(error.what());
    code = megaflux::cli::exit_code_of(error.code());
  } catch (const std::bad_alloc&) {
    megaflux::cli::print_error("out of memory: this takes more than the process may have");
    code = ExitCode::kBadInput;
  } catch (const std::exception& error) {
    const bool is_report_lost = std::ferror(stdout) != 0;
    // No thread to be had, for example: nothing was found to be wrong with the work.
    const bool is_refused = dynamic_cast<const std::system_error*>(&error) != nullptr;
    if (is_report_lost || is_refused) code = ExitCode::kBadInput;
    megaflux::cli::print_error((is_report_lost ? "standard output: " : "") +
                               std::string(error.what()));
  }
  return static_cast<int>(code);
}
