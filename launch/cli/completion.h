// Shell completion scripts.
#pragma once

#include <string>
#include <vector>

#include "launch/cli/command_table.h"

namespace longspan {

// A configuration key, as an argument of --set.
struct CompletedKey {
  std::string key;
  std::vector<std::string> choices;  // allowed values; empty: any
  bool is_path = false;
};

// Returns the keys of all families. Choices that differ between families are merged.
std::vector<CompletedKey> completed_keys();

// Return scripts that complete commands, options, choices, files, and configuration keys with their
// choices. A shell sources them from a file or by `source <(longspan completion bash)`.
std::string bash_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys);
std::string zsh_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys);
std::string fish_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys);

// Type of the words after an option: its choices, or one of these words.
inline constexpr const char* any_file = "files";
inline constexpr const char* nothing_known = "nothing";
inline constexpr const char* configuration_keys = "keys";
// `names`: the program's commands, the choices of a COMMAND.
std::string completed_values(const CommandOption& option, const std::vector<std::string>& names);

// Returns functions in the syntax common to bash and zsh:
//   _longspan_is_command "train"        succeeds for a command, as "tokenizer train"
//   _longspan_values "train" "--set"    sets `values` to the words after the option; fails if the
//                                       command lacks the option, or the option has no value
//   _longspan_keys, _longspan_key_values KEY     set `values` to the keys, or a key's choices
std::string shared_functions(const CommandEntry& program, const std::vector<CompletedKey>& keys);

// Returns the words that can follow a command: its subcommands, then the choices of its
// positionals.
std::vector<std::string> words_at(const CommandEntry& program, const CommandEntry& command);

}  // namespace longspan
