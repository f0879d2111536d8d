#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "launch/command.h"
#include "launch/configuration.h"
#include "launch/reference.h"

namespace longspan {
namespace {

struct Arguments {
  ConfigurationArguments configuration;
  bool reference = false;
  bool markdown = false;
};

ExitCode run(const Arguments& arguments, Session& session) {
  if (arguments.reference || arguments.markdown) {
    const auto reference = configuration_reference();
    print(session, arguments.markdown ? markdown(reference) : help_text(reference));
    return ExitCode::ok;
  }
  const auto& [file, settings] = arguments.configuration;
  if (file.empty()) throw ConfigurationError("longspan config: CONFIG or --reference is required");
  const auto configuration = configure(read_configuration(file, settings, session.world()));
  print(session, configuration->table.resolved());
  warn(session, configuration->table.warnings());
  return ExitCode::ok;
}

}  // namespace

Command config_command() {
  return {"config",
          "Check a configuration and print it in full, with where each value came from",
          "  longspan config configs/quickstart.yaml\n"
          "  longspan config configs/quickstart.yaml --set training.steps=100\n"
          "  longspan config --reference\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<Arguments>();
            add_configuration(app, arguments->configuration, false);
            app.add_flag("--reference", arguments->reference, "print every key and what it means");
            app.add_flag("--markdown", arguments->markdown, "the reference as a page of Markdown");
            return [arguments](Session& session) { return run(*arguments, session); };
          }};
}

}  // namespace longspan
