// How results are searched for, alike for every subcommand that makes them.
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
// --beam, --n-best, --length-penalty and what belongs to them. Keep it alive with the action.
void add_decoding(CLI::App& app, DecodingArguments& arguments);
// Throws ConfigurationError where they say how to search and the run's task searches for nothing.
// `command`: "evaluate".
void check_unused_options(const DecodingArguments& arguments,
                          const RunConfig& settings,
                          std::string_view command);

}  // namespace longspan
