// longspan completion, and code shared by the shells' scripts.
#include "launch/cli/completion.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "launch/cli/command.h"
#include "launch/cli/option_schema.h"
#include "launch/cli/reference.h"

namespace longspan {
namespace {

const std::vector<std::string> shells = {"bash", "zsh", "fish"};

std::vector<std::string> choices_of(const OptionValues& values) {
  std::vector<std::string> choices = values.rule.choices;
  if (values.type == WordType::boolean) choices = {"true", "false"};
  if (values.is_optional) choices.emplace_back("none");
  return choices;
}

std::vector<std::string> command_list(const CommandEntry& program) {
  std::vector<std::string> names;
  for (const CommandEntry& command : program.commands) names.push_back(command.name());
  return names;
}

// Returns a case pattern: "one two" | "three".
std::string pattern(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : " | ", word);
  return text;
}

// Branches of case that set `values`: for each value the words that select it.
std::string cases(const std::map<std::string, std::vector<std::string>>& words_by_value) {
  std::string text;
  for (const auto& [value, words] : words_by_value)
    text += fmt::format("    {}) values=\"{}\" ;;\n", pattern(words), value);
  return text;
}

}  // namespace

std::vector<CompletedKey> completed_keys() {
  std::vector<CompletedKey> keys;
  for (const OptionDescription& option : configuration_reference()) {
    const OptionValues values = values_of(option);
    auto known = std::ranges::find(keys, option.key, &CompletedKey::key);
    if (known == keys.end()) known = keys.insert(keys.end(), CompletedKey{option.key, {}, false});
    known->is_path = known->is_path || values.type == WordType::path;
    for (const std::string& choice : choices_of(values))
      if (std::ranges::count(known->choices, choice) == 0) known->choices.push_back(choice);
  }
  return keys;
}

std::string completed_values(const CommandOption& option, const std::vector<std::string>& names) {
  if (!option.choices.empty()) return fmt::format("{}", fmt::join(option.choices, " "));
  if (option.value == "KEY=VALUE") return configuration_keys;
  if (option.value == "COMMAND") return fmt::format("{}", fmt::join(names, " "));
  constexpr std::array numbers = {"INT", "UINT", "FLOAT", "FIRST:LAST", "LAYER:HEAD"};
  return std::ranges::count(numbers, option.value) > 0 ? nothing_known : any_file;
}

std::vector<std::string> words_at(const CommandEntry& program, const CommandEntry& command) {
  std::vector<std::string> words;
  for (const CommandEntry& below : command.commands) words.push_back(below.words.back());
  for (const CommandOption& place : command.places) {
    if (place.value == "COMMAND") words = command_list(program);
    words.insert(words.end(), place.choices.begin(), place.choices.end());
  }
  return words;
}

std::string shared_functions(const CommandEntry& program, const std::vector<CompletedKey>& keys) {
  const std::vector<std::string> names = command_list(program);
  std::vector<std::string> commands;
  std::map<std::string, std::vector<std::string>> words, options, values;
  for (const CommandEntry* command : all_commands(program)) {
    if (!command->words.empty()) commands.push_back(command->name());
    words[fmt::format("{}", fmt::join(words_at(program, *command), " "))].push_back(
        command->name());
    std::vector<std::string> own;
    for (const CommandOption& option : command->options) {
      own.insert(own.end(), option.names.begin(), option.names.end());
      if (option.value.empty()) continue;
      for (const std::string& name : option.names)
        values[completed_values(option, names)].push_back(
            fmt::format("{} {}", command->name(), name));
    }
    options[fmt::format("{}", fmt::join(own, " "))].push_back(command->name());
  }
  std::string all_keys;
  std::map<std::string, std::vector<std::string>> choices;
  for (const CompletedKey& key : keys) {
    all_keys += fmt::format("{}{}=", all_keys.empty() ? "" : " ", key.key);
    if (!key.choices.empty())
      choices[fmt::format("{}", fmt::join(key.choices, " "))].push_back(key.key);
    else if (key.is_path)
      choices[any_file].push_back(key.key);
  }
  const auto function = [](const char* name, const char* on, const std::string& body) {
    return fmt::format("{}() {{\n  case \"{}\" in\n{}  esac\n}}\n", name, on, body);
  };
  return function("_longspan_is_command",
                  "$1",
                  fmt::format("    {}) return 0 ;;\n    *) return 1 ;;\n", pattern(commands))) +
         function("_longspan_words", "$1", cases(words) + "    *) values=\"\" ;;\n") +
         function("_longspan_options", "$1", cases(options) + "    *) values=\"\" ;;\n") +
         function("_longspan_values", "$1 $2", cases(values) + "    *) return 1 ;;\n") +
         fmt::format("_longspan_keys() {{\n  values=\"{}\"\n}}\n", all_keys) +
         function("_longspan_key_values",
                  "$1",
                  cases(choices) + fmt::format("    *) values={} ;;\n", nothing_known));
}

Command completion_command() {
  return {.name = "completion",
          .description =
              "Print a shell completion script for commands, options, choices, files and the keys "
              "of --set",
          .examples =
              "  source <(longspan completion bash)\n"
              "  longspan completion bash > "
              "~/.local/share/bash-completion/completions/longspan\n"
              "  longspan completion zsh > \"${fpath[1]}/_longspan\"\n"
              "  longspan completion fish > ~/.config/fish/completions/longspan.fish\n",
          .bind = {},
          .bind_text = [](CLI::App& app) -> TextAction {
            auto shell = std::make_shared<std::string>();
            app.add_option("SHELL", *shell, "shell of the script")
                ->required()
                ->check(CLI::IsMember(shells));
            return [shell](const CLI::App& root) {
              const CommandEntry program = command_table(root);
              const std::vector<CompletedKey> keys = completed_keys();
              if (*shell == "bash") return bash_completion(program, keys);
              if (*shell == "zsh") return zsh_completion(program, keys);
              return fish_completion(program, keys);
            };
          }};
}

}  // namespace longspan
