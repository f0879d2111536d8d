// Shell completion: a short script per shell, which asks this program for the candidates.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/cli/command.h"
#include "launch/cli/command_table.h"
#include "launch/cli/reference.h"

namespace longspan {
namespace {

// A word that can replace the last one of a command line.
struct Candidate {
  std::string word;
  std::string description = {};  // empty: none
};

// Candidates for the last word; with `files`, names of files instead.
struct Completion {
  std::vector<Candidate> words = {};
  bool files = false;
};

// The scripts print nothing but what `longspan completion SHELL -- WORD...` returns. It returns a
// candidate per line, with its description after a tab, or this word for names of files.
constexpr const char* files_word = ":files";

// Bash splits words at "=" if COMP_WORDBREAKS contains it, and then replaces only what follows.
constexpr const char* bash_script =
    R"shell(# Bash completion of longspan, from: longspan completion bash
_longspan() {
  local words=() word i
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]} > 0)) && [[ $word == =* || ${COMP_WORDS[i - 1]} == *= ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
  done
  mapfile -t COMPREPLY < <("${1/#\~/$HOME}" completion bash -- "${words[@]}" 2>/dev/null | cut -f 1)
  if [[ ${COMPREPLY[0]-} == :files ]]; then
    COMPREPLY=()
    return
  fi
  compopt +o default 2>/dev/null
  [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
  word=${words[${#words[@]} - 1]}
  if [[ $COMP_WORDBREAKS == *=* && $word == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%=*}="}")
  fi
}
complete -o default -F _longspan longspan
)shell";

constexpr const char* zsh_script = R"shell(#compdef longspan
# Zsh completion of longspan, from: longspan completion zsh
_longspan() {
  local current=${words[CURRENT]} prefix=
  local -a found
  found=("${(@f)$(${~words[1]} completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $current == *=* ]]; then
    prefix=${current%=*}=
    compset -P '*='
  fi
  case ${found[1]} in
    '') return 1 ;;
    :files) _files ;;
    *=) compadd -S '' -- "${(@)found#$prefix}" ;;
    *$'\t'*)
      found=("${(@)found/$'\t'/:}")
      _describe candidate found
      ;;
    *) compadd -- "${(@)found#$prefix}" ;;
  esac
}
if [[ ${funcstack[1]} == _longspan ]]; then
  _longspan "$@"
else
  compdef _longspan longspan
fi
)shell";

constexpr const char* fish_script =
    R"shell(# Fish completion of longspan, from: longspan completion fish
function __longspan_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~(?=/)' $HOME -- $words[1])
    type -q -- $program; or return
    set -l found ($program completion fish -- $words[2..-1] "$current" 2>/dev/null)
    if test "$found[1]" = :files
        set -l prefix (string match -r '^.*=' -- $current)
        __fish_complete_path (string replace -r '^.*=' '' -- $current) | string replace -r '^' "$prefix"
    else
        string join \n -- $found
    end
end
complete -c longspan -f -a '(__longspan_complete)'
)shell";

constexpr std::array<std::pair<const char*, const char*>, 3> scripts = {
    std::pair{"bash", bash_script}, std::pair{"zsh", zsh_script}, std::pair{"fish", fish_script}};

Completion words_of(const std::vector<std::string>& words) {
  Completion completion;
  for (const std::string& word : words) completion.words.push_back({word});
  return completion;
}

std::vector<std::string> command_names(const CommandEntry& program) {
  std::vector<std::string> names;
  for (const CommandEntry& command : program.commands) names.push_back(command.words.back());
  return names;
}

// Choices of a key differ between families: all of them.
Completion values_of_key(std::string_view key) {
  std::vector<std::string> choices;
  bool is_path = false;
  for (const OptionDescription& option : configuration_reference()) {
    if (option.key != key) continue;
    is_path = is_path || option.form.word == WordType::path;
    std::vector<std::string> more = option.rule.choices;
    if (option.form.word == WordType::boolean) more = {"true", "false"};
    if (option.form.is_optional) more.emplace_back("none");
    for (const std::string& choice : more)
      if (std::ranges::count(choices, choice) == 0) choices.push_back(choice);
  }
  Completion completion = words_of(choices);
  completion.files = choices.empty() && is_path;
  return completion;
}

Completion setting(const std::string& current) {
  Completion completion;
  if (const std::size_t end = current.find('='); end != std::string::npos) {
    completion = values_of_key(std::string_view(current).substr(0, end));
    for (Candidate& each : completion.words) each.word.insert(0, current, 0, end + 1);
    return completion;
  }
  for (const OptionDescription& option : configuration_reference())
    if (std::ranges::count(completion.words, option.key + "=", &Candidate::word) == 0)
      completion.words.push_back({option.key + "="});
  return completion;
}

// The value of an option or of a positional argument.
Completion argument(const CommandEntry& program,
                    const CommandOption& option,
                    const std::string& current) {
  if (!option.choices.empty()) return words_of(option.choices);
  if (option.value == "KEY=VALUE") return setting(current);
  if (option.value == "COMMAND") return words_of(command_names(program));
  constexpr std::array numbers = {"INT", "UINT", "FLOAT", "FIRST:LAST", "LAYER:HEAD"};
  return {.files = std::ranges::count(numbers, option.value) == 0};
}

// A word in place of a subcommand or of a positional argument.
Completion place(const CommandEntry& program, const CommandEntry& command) {
  Completion completion;
  for (const CommandEntry& below : command.commands)
    completion.words.push_back({below.words.back(), std::string(summary_of(below.description))});
  for (const CommandOption& each : command.places) {
    const Completion more = argument(program, each, "");
    completion.words.insert(completion.words.end(), more.words.begin(), more.words.end());
  }
  completion.files = completion.words.empty();
  return completion;
}

const CommandOption* find_option(const CommandEntry& command, std::string_view name) {
  const auto found = std::ranges::find_if(command.options, [&](const CommandOption& option) {
    return std::ranges::count(option.names, name) > 0;
  });
  return found == command.options.end() ? nullptr : &*found;
}

// The command, and the option that the last word is the value of, or null.
struct Position {
  const CommandEntry* command;
  const CommandOption* option = nullptr;
};

Position position_of(const CommandEntry& program, std::span<const std::string> before) {
  Position at = {&program};
  for (const std::string& word : before) {
    if (at.option) {
      at.option = nullptr;
    } else if (at.command->name() == "launch" && word == "--") {
      at.command = &program;  // another command, for the ranks
    } else if (word.starts_with("-")) {
      const CommandOption* const option = find_option(*at.command, word);
      if (option && !option->value.empty()) at.option = option;
    } else {
      for (const CommandEntry& below : at.command->commands)
        if (below.words.back() == word) {
          at.command = &below;
          break;
        }
    }
  }
  return at;
}

// Completes commands, options, choices, files, and the keys of --set with their choices. `words`:
// the command line after the program's name; the last word, which may be empty, is completed.
Completion complete(const CommandEntry& program, std::span<const std::string> words) {
  if (words.empty()) return {};
  const std::string& last = words.back();
  Position at = position_of(program, words.first(words.size() - 1));
  std::string prefix;  // of the value in "--option=value"
  if (const std::size_t end = last.find('=');
      !at.option && last.starts_with("--") && end != last.npos) {
    prefix = last.substr(0, end + 1);
    at.option = find_option(*at.command, last.substr(0, end));
    if (!at.option) return {};
  }
  const std::string current = last.substr(prefix.size());
  Completion completion;
  if (at.option) {
    completion = argument(program, *at.option, current);
  } else if (current.starts_with("-")) {
    for (const CommandOption& option : at.command->options)
      for (const std::string& name : option.names)
        completion.words.push_back({name, std::string(summary_of(option.meaning))});
  } else {
    completion = place(program, *at.command);
  }
  std::erase_if(completion.words,
                [&](const Candidate& each) { return !each.word.starts_with(current); });
  for (Candidate& each : completion.words) each.word.insert(0, prefix);
  return completion;
}

}  // namespace

Command completion_command() {
  return {
      .name = "completion",
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
        struct Arguments {
          std::string shell;
          std::vector<std::string> words;
        };
        auto arguments = std::make_shared<Arguments>();
        std::vector<std::string> shells;
        for (const auto& [shell, script] : scripts) shells.emplace_back(shell);
        app.add_option("SHELL", arguments->shell, "shell of the script")
            ->required()
            ->check(CLI::IsMember(shells));
        app.add_option("WORD",
                       arguments->words,
                       "print the candidates for the last word of a command line instead of the "
                       "script; after --");
        return [arguments](const CLI::App& root) -> std::string {
          if (arguments->words.empty())
            return std::ranges::find(scripts,
                                     arguments->shell,
                                     [](const auto& each) { return std::string(each.first); })
                ->second;
          const Completion completion = complete(command_table(root), arguments->words);
          if (completion.files) return std::string(files_word) + "\n";
          std::string text;
          for (const auto& [word, description] : completion.words)
            text += description.empty() ? word + "\n" : fmt::format("{}\t{}\n", word, description);
          return text;
        };
      }};
}

}  // namespace longspan
