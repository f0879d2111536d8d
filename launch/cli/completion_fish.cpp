#include <fmt/format.h>

#include <string_view>

#include "launch/cli/completion.h"

namespace longspan {
namespace {

// Determines the command on the line so far, and compares it with a given one.
constexpr const char* head = R"shell(
function __longspan_command
    set -l command
    for word in (commandline -opc)[2..-1]
        if test "$command" = launch -a "x$word" = x--
            set command # another one, to be started on the ranks
            continue
        end
        set -l longer (string trim -- "$command $word")
        if contains -- "$longer" $__longspan_commands
            set command $longer
        end
    end
    echo $command
end
function __longspan_at
    set -l command (__longspan_command)
    test "$command" = "$argv[1]"
end
)shell";

// Quotes the first line with single quotes.
std::string quoted_for_fish(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string names_of_option(const CommandOption& option) {
  std::string text;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return text;
}

std::string option_line(const CommandEntry& command,
                        const CommandOption& option,
                        const std::vector<std::string>& names) {
  std::string text = fmt::format(
      "complete -c longspan -n '__longspan_at \"{}\"'{}", command.name(), names_of_option(option));
  if (!option.value.empty()) {
    const std::string values = completed_values(option, names);
    if (values == any_file)
      text += " -r -F";
    else if (values == configuration_keys)
      text += " -x -a '(__longspan_keys)'";
    else if (values == nothing_known)
      text += " -x";
    else
      text += " -x -a " + quoted_for_fish(values);
  }
  return text + " -d " + quoted_for_fish(option.meaning) + "\n";
}

std::string keys_function(const std::vector<CompletedKey>& keys) {
  std::string all;
  std::string choices;
  for (const CompletedKey& key : keys) {
    all += " " + key.key + "=";
    if (!key.choices.empty())
      choices += fmt::format("            case {}\n                printf \"$key=%s\\n\" {}\n",
                             key.key,
                             fmt::join(key.choices, " "));
    else if (key.is_path)
      choices += fmt::format(
          "            case {}\n                __fish_complete_path (string split -m1 = -- "
          "$token)[2] | string replace -r '^' \"$key=\"\n",
          key.key);
  }
  return fmt::format(
      "function __longspan_keys\n"
      "    set -l token (commandline -ct)\n"
      "    if string match -q '*=*' -- $token\n"
      "        set -l key (string split -m1 = -- $token)[1]\n"
      "        switch $key\n{}        end\n"
      "    else\n"
      "        printf '%s\\n'{}\n"
      "    end\n"
      "end\n",
      choices,
      all);
}

}  // namespace

std::string fish_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys) {
  std::vector<std::string> names;
  for (const CommandEntry& command : program.commands) names.push_back(command.name());
  std::string text = "# Fish completion of longspan, made by: longspan completion fish\n";
  text += "set -g __longspan_commands";
  for (const CommandEntry* command : all_commands(program))
    if (!command->words.empty()) text += " " + quoted_for_fish(command->name());
  text += "\n";
  text += head + keys_function(keys);
  for (const CommandEntry* command : all_commands(program)) {
    const std::string at =
        fmt::format("complete -c longspan -n '__longspan_at \"{}\"'", command->name());
    for (const CommandEntry& below : command->commands)
      text += fmt::format(
          "{} -f -a {} -d {}\n", at, below.words.back(), quoted_for_fish(below.description));
    if (command->commands.empty())
      for (const std::string& word : words_at(program, *command))
        text += fmt::format("{} -f -a {}\n", at, word);
    for (const CommandOption& option : command->options)
      text += option_line(*command, option, names);
  }
  return text;
}

}  // namespace longspan
