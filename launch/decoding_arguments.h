// How results are searched for, alike for every subcommand that makes them.
#pragma once

#include <optional>

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

}  // namespace longspan
