// Scripts by which shells complete command lines of the program.
#pragma once

#include <string>
#include <vector>

#include "launch/cli/command_table.h"

namespace longspan {

// A key of the configuration, as behind --set.
struct CompletedKey {
  std::string key;
  std::vector<std::string> choices;  // for its value; empty: anything
  bool is_path = false;
};

// Of every family; choices that families have differently are joined.
std::vector<CompletedKey> completed_keys();

// Each completes commands, options, choices, files, and keys of the configuration with their
// choices. A shell reads it as a file, or by `source <(longspan completion bash)`.
std::string bash_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys);
std::string zsh_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys);
std::string fish_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys);

// What stands behind an option: its choices, or one of the words below.
inline constexpr const char* any_file = "files";
inline constexpr const char* nothing_known = "nothing";
inline constexpr const char* configuration_keys = "keys";
// `names`: the program's commands, which a COMMAND is one of.
std::string completed_values(const CommandOption& option, const std::vector<std::string>& names);

// Functions in the words that bash and zsh share:
//   _longspan_is_command "train"        succeeds for a command, as "tokenizer train"
//   _longspan_values "train" "--set"    sets `values` to what stands behind the option; fails where
//                                       the command has no such option, or it takes nothing
//   _longspan_keys, _longspan_key_values KEY     set `values` to keys, to what a key takes
std::string shared_functions(const CommandEntry& program, const std::vector<CompletedKey>& keys);

// Of a command: those below it, then the choices of its places.
std::vector<std::string> words_at(const CommandEntry& program, const CommandEntry& command);

}  // namespace longspan
