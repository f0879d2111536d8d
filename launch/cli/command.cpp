#include "launch/cli/command.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "framework/core/system.h"
#include "launch/cli/cli_validators.h"

namespace longspan {

void add_configuration(CLI::App& app, ConfigurationArguments& arguments, bool is_required) {
  app.add_option("CONFIG", arguments.file, "YAML configuration file of the run")
      ->required(is_required)
      ->check(not_empty_text());
  app.add_option("--set",
                 arguments.settings,
                 "configuration key and its value, as in --set training.max_steps=100 or --set "
                 "'model.attention.layer_types=[sliding_window, full]'; repeatable, the last value "
                 "of a key wins")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void print(const Session& session, const std::string& text) {
  if (session.world().rank() != 0) return;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Failure("standard output cannot be written: {}", errno_message());
  }
}

void warn(const Session& session, const std::vector<std::string>& sentences) {
  if (session.world().rank() != 0) return;
  for (const std::string& sentence : sentences)
    std::fprintf(stderr, "warning: %s\n", sentence.c_str());
}

void inform(const Session& session, const std::string& sentence) {
  if (session.world().rank() == 0) std::fprintf(stderr, "longspan: %s\n", sentence.c_str());
}

}  // namespace longspan
