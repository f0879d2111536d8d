#include <string_view>

#include "launch/cli/completion.h"

namespace longspan {
namespace {

constexpr const char* zsh_body = R"shell(
_longspan() {
  local command= expects= values= word option i
  for ((i = 2; i < CURRENT; i++)); do
    word=${words[i]}
    if [[ -n $expects ]]; then
      expects=
    elif [[ $command == launch && $word == -- ]]; then
      command= # another one, to be started on the ranks
    elif [[ $word == -* ]]; then
      if [[ $word != *=* ]] && _longspan_values "$command" "$word"; then expects=$word; fi
    elif _longspan_is_command "${command:+$command }$word"; then
      command=${command:+$command }$word
    fi
  done
  local current=${words[CURRENT]}
  option=$expects
  if [[ -z $option && $current == --*=* ]]; then
    option=${current%%=*}
    current=${current#*=}
    compset -P 1 '*='
  fi
  if [[ -n $option ]]; then
    _longspan_values "$command" "$option" || return 1
  elif [[ $current == -* ]]; then
    _longspan_options "$command"
  else
    _longspan_words "$command"
    [[ -n $values ]] || values=files
    if [[ -z $command ]]; then
      _longspan_commands
      return
    fi
  fi
  if [[ $values == keys && $current == *=* ]]; then
    _longspan_key_values "${current%%=*}"
    compset -P 1 '*='
  elif [[ $values == keys ]]; then
    _longspan_keys
    compadd -S '' -- ${=values}
    return
  fi
  case $values in
    files) _files ;;
    nothing) return 1 ;;
    *) compadd -- ${=values} ;;
  esac
}
if [[ ${funcstack[1]} == _longspan ]]; then
  _longspan "$@"
else
  compdef _longspan longspan
fi
)shell";

// Quotes with single quotes; _describe ends a name at a colon.
std::string quoted_for_zsh(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') break;  // only the first line is used
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result;
}

}  // namespace

std::string zsh_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys) {
  std::string commands = "_longspan_commands() {\n  local -a commands=(\n";
  for (const CommandEntry& command : program.commands)
    commands += "    '" + command.name() + ":" + quoted_for_zsh(command.description) + "'\n";
  commands += "  )\n  _describe command commands\n}\n";
  return "#compdef longspan\n# Zsh completion of longspan, made by: longspan completion zsh\n" +
         shared_functions(program, keys) + commands + zsh_body;
}

}  // namespace longspan
