// The program's commands and options as data, for completion and manual pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace longspan {

// An option or a positional argument.
struct CommandOption {
  std::vector<std::string> names;    // "-h", "--help"; for a positional its name: "CONFIG"
  std::string value;                 // type: "KEY=VALUE", "TEXT", "INT"; empty: none
  std::vector<std::string> choices;  // allowed values; empty: any
  std::string meaning;
  bool required = false;
  bool repeats = false;  // accepts several values
};

struct CommandEntry {
  std::vector<std::string> words;  // "tokenizer", "train"; none: the program itself
  std::string description;
  std::string footer;  // end of its help
  std::vector<CommandOption> options;
  std::vector<CommandOption> places;   // positional arguments, in order
  std::vector<CommandEntry> commands;  // subcommands

  std::string name() const;  // "tokenizer train"
};

// Returns the first line of a command's description, for lists of commands.
std::string_view summary_of(std::string_view description);

// Returns the table of a program with all commands bound, including subcommands.
CommandEntry command_table(const CLI::App& app);

// Returns the entry and all its descendants, each before its own descendants.
std::vector<const CommandEntry*> all_commands(const CommandEntry& entry);

}  // namespace longspan
