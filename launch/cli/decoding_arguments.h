// Decoding options shared by all subcommands that decode.
#pragma once

#include <string_view>

#include "framework/config/run_config.h"
#include "framework/tasks/translate.h"

namespace CLI {
class App;
}

namespace longspan {

struct DecodingArguments {
  TranslateOptions options;
  bool sample = false;
};
// Adds --beam, --n-best, --length-penalty and related options. `arguments` must outlive the action.
void add_decoding(CLI::App& app, DecodingArguments& arguments);
// Throws ConfigurationError if decoding options are set for a task that does not search. `command`:
// "evaluate".
void check_unused_options(const DecodingArguments& arguments,
                          const RunConfig& settings,
                          std::string_view command);

}  // namespace longspan
