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

// What a subcommand does once the command line is read. It returns ok or stopped; what goes wrong
// is thrown.
using Action = std::function<ExitCode(Session&)>;

// The same of a command that tells of the program itself: it needs no session, and returns what is
// printed.
using TextAction = std::function<std::string(const CLI::App& program)>;

struct Command {
  std::string name;
  std::string description;
  std::string examples;  // for --help, a line each
  // Binds the command line to variables that live in the action. One of the two is there.
  std::function<Action(CLI::App&)> bind;
  std::function<TextAction(CLI::App&)> bind_text = {};
};

Command run_command();  // its action is empty: launch/cli/run.h
Command train_command();
Command evaluate_command();
Command generate_command();
Command config_command();
Command plan_command();
Command inspect_command();
Command verify_command();
Command report_command();
Command attention_command();
Command tokenizer_command();
Command prepare_command();
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

// CONFIG and --set, alike for every subcommand that takes them. Keep it alive with the action.
struct ConfigurationArguments {
  std::string file;
  std::vector<std::string> settings;
};
void add_configuration(CLI::App& app, ConfigurationArguments& arguments, bool is_required = true);

// All of the text to standard output, on the lowest rank only. Throws Failure when it cannot be
// written.
void print(const Session& session, const std::string& text);

// What is no mistake but should be known: a line each to standard error, on the lowest rank only.
void warn(const Session& session, const std::vector<std::string>& sentences);

// The same of how far long work is.
void inform(const Session& session, const std::string& sentence);

}  // namespace longspan
