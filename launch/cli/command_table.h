// The program's commands and options as values, for completion and manual pages.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace longspan {

// An option, or a word at a place.
struct CommandOption {
  std::vector<std::string> names;    // "-h", "--help"; of a word at a place its name: "CONFIG"
  std::string value;                 // what it takes: "KEY=VALUE", "TEXT", "INT"; empty: nothing
  std::vector<std::string> choices;  // that it takes; empty: anything
  std::string meaning;
  bool required = false;
  bool repeats = false;  // it takes several values
};

struct CommandEntry {
  std::vector<std::string> words;  // "tokenizer", "train"; none: the program itself
  std::string description;
  std::string footer;  // what its help ends with
  std::vector<CommandOption> options;
  std::vector<CommandOption> places;   // words without an option's name, in their order
  std::vector<CommandEntry> commands;  // below it

  std::string name() const;  // "tokenizer train"
};

// Of a program whose commands are all bound, with those below it.
CommandEntry command_table(const CLI::App& app);

// The entry and all below it, each before those below it.
std::vector<const CommandEntry*> all_commands(const CommandEntry& entry);

}  // namespace longspan
