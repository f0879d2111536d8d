#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <utility>

#include "launch/command.h"
#include "launch/configuration.h"
#include "launch/number_check.h"
#include "launch/reference.h"

namespace longspan {
namespace {

struct Arguments {
  ConfigurationArguments configuration;
  std::vector<std::string> words;
  bool reference = false;
  bool markdown = false;
};

// Of the configuration where there is one, and of it what the words ask for.
ExitCode print_reference(const Arguments& arguments, Session& session) {
  std::vector<std::string> words = arguments.words;
  std::string file = arguments.configuration.file;
  if (!file.empty() && !names_file(file)) words.insert(words.begin(), std::exchange(file, ""));
  const auto other = std::ranges::find_if(words, names_file);
  if (file.empty() && other != words.end()) {
    file = *other;
    words.erase(other);
  }
  std::vector<OptionDescription> reference;
  if (file.empty()) {
    if (!arguments.configuration.settings.empty())
      throw ConfigurationError("longspan config: --set with --reference needs a CONFIG to set in");
    reference = configuration_reference();
  } else {
    const auto configuration =
        configure(read_configuration(file, arguments.configuration.settings, session.world()));
    reference = reference_of(*configuration);
    warn(session, configuration->table.warnings());
  }
  reference = search(std::move(reference), words);
  print(session, arguments.markdown ? markdown(reference) : help_text(reference));
  return ExitCode::ok;
}

ExitCode run(const Arguments& arguments, Session& session) {
  if (arguments.reference || arguments.markdown) return print_reference(arguments, session);
  const auto& [file, settings] = arguments.configuration;
  if (file.empty()) throw ConfigurationError("longspan config: CONFIG or --reference is required");
  if (!arguments.words.empty())
    throw ConfigurationError(
        "longspan config: found \"{}\" after CONFIG; words to look for go with --reference",
        arguments.words.front());
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
          "  longspan config --reference\n"
          "  longspan config --reference model.attention\n"
          "  longspan config --reference dropout configs/quickstart.yaml\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<Arguments>();
            add_configuration(app, arguments->configuration, false);
            app.add_option("WORD",
                           arguments->words,
                           "with --reference: print only keys of this section, that begin so, or "
                           "that have the word in name or meaning")
                ->check(not_empty_text());
            app.add_flag("--reference",
                         arguments->reference,
                         "print every key and what it means; with CONFIG (a name that ends in "
                         ".yaml, .yml or .json, or has a /) those of its family and what it sets");
            app.add_flag("--markdown", arguments->markdown, "the reference as a page of Markdown");
            return [arguments](Session& session) { return run(*arguments, session); };
          }};
}

}  // namespace longspan
