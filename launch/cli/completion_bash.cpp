#include "launch/cli/completion.h"

namespace longspan {
namespace {

// Bash splits words at "=" if COMP_WORDBREAKS contains it, and then replaces only what follows.
constexpr const char* bash_body = R"shell(
_longspan() {
  local words=() command= expects= values= prefix= word i
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    # As they were before they were cut at "=".
    if ((${#words[@]} > 0)) && [[ $word == =* || ${COMP_WORDS[i - 1]} == *= ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
  done
  local last=$((${#words[@]} - 1))
  for ((i = 0; i < last; i++)); do
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
  local current=${words[last]} option=$expects
  COMPREPLY=()
  if [[ -z $option && $current == --*=* ]]; then
    option=${current%%=*}
    prefix=$option=
    current=${current#*=}
  fi
  if [[ -n $option ]]; then
    _longspan_values "$command" "$option" || return 0
  elif [[ $current == -* ]]; then
    _longspan_options "$command"
  else
    _longspan_words "$command"
    [[ -n $values ]] || values=files
  fi
  if [[ $values == keys && $current == *=* ]]; then
    _longspan_key_values "${current%%=*}"
    prefix+=${current%%=*}=
    current=${current#*=}
  elif [[ $values == keys ]]; then
    _longspan_keys
    compopt -o nospace 2>/dev/null
  fi
  [[ $values != files ]] || return 0 # readline completes file names
  compopt +o default 2>/dev/null
  [[ $values != nothing ]] || return 0
  [[ $COMP_WORDBREAKS != *=* ]] || prefix=
  mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$values" -- "$current")
}
complete -o default -F _longspan longspan
)shell";

}  // namespace

std::string bash_completion(const CommandEntry& program, const std::vector<CompletedKey>& keys) {
  return "# Bash completion of longspan, made by: longspan completion bash\n" +
         shared_functions(program, keys) + bash_body;
}

}  // namespace longspan
