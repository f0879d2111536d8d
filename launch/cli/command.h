// A subcommand of the program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/distributed/session.h"

namespace CLI {
class App;
}

namespace longspan {

// Runs a subcommand after the command line is parsed. Returns ok or stopped, and throws errors.
using Action = std::function<ExitCode(Session&)>;

// Runs a command that describes the program itself. It needs no session, and returns the text to
// print.
using TextAction = std::function<std::string(const CLI::App& program)>;

struct Command {
  std::string name;
  std::string description;
  std::string examples;  // for --help, one per line
  // Binds the command line to variables that the action owns. Exactly one of the two is set.
  std::function<Action(CLI::App&)> bind;
  std::function<TextAction(CLI::App&)> bind_text = {};
};

Command launch_command();  // its action is empty: launch/cli/launch.h
Command train_command();
Command evaluate_command();
Command generate_command();
Command config_command();
Command plan_command();
Command inspect_command();
Command verify_command();
Command report_command();
Command attention_maps_command();
Command tokenizer_command();
Command tokenize_data_command();
Command import_command();
Command export_command();
Command list_command();
Command compare_command();
Command tail_command();
Command completion_command();
Command man_command();

// For the help and the manual pages.
inline constexpr const char* exit_codes =
    "Exit codes: 0 done; 2 bad command line or configuration; 3 bad data, tokenizer or "
    "checkpoint;\n"
    "4 training diverged; 5 a rank failed or hung; 75 stopped on request with a checkpoint "
    "saved; 1 anything else.";

// CONFIG and --set, shared by all subcommands that have them. Must outlive the action.
struct ConfigurationArguments {
  std::string file;
  std::vector<std::string> settings;
};
void add_configuration(CLI::App& app, ConfigurationArguments& arguments, bool is_required = true);

// Prints the full text to standard output, on the lowest rank only. Throws Failure if it cannot be
// written.
void print(const Session& session, const std::string& text);

// Prints warnings to standard error, one per line and prefixed as in the log of a run, on the
// lowest rank only.
void warn(const Session& session, const std::vector<std::string>& sentences);

// Prints the progress of long work to standard error, on the lowest rank only.
void inform(const Session& session, const std::string& sentence);

}  // namespace longspan
