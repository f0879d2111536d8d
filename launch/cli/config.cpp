#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <utility>

#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/config_template.h"
#include "launch/cli/configuration.h"
#include "launch/cli/reference.h"
#include "launch/cli/run_record.h"
#include "launch/cli/schema.h"

namespace longspan {
namespace {

struct ConfigArguments {
  ConfigurationArguments configuration;
  std::vector<std::string> words;
  bool reference = false;
  bool markdown = false;
  std::string family;  // --new
  bool schema = false;

  bool makes() const { return schema || !family.empty(); }
};

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.name);
  return names;
}

// What needs no configuration.
ExitCode make(const ConfigArguments& arguments, Session& session) {
  const auto& [file, settings] = arguments.configuration;
  if (!file.empty() || !settings.empty() || arguments.reference || arguments.markdown ||
      (arguments.schema && !arguments.family.empty()))
    throw ConfigurationError("longspan config: {} stands alone, without CONFIG and other options",
                             arguments.schema ? "--schema" : "--new");
  print(session,
        arguments.schema ? json_text(configuration_schema()) : config_template(arguments.family));
  return ExitCode::ok;
}

// Of the configuration where there is one, and of it what the words ask for.
ExitCode print_reference(const ConfigArguments& arguments, Session& session) {
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
  const std::vector<std::string> notes = notes_about(words);
  for (const std::string& note : notes) print(session, note + "\n");
  try {
    reference = search(std::move(reference), words);
  } catch (const ConfigurationError&) {
    if (notes.empty()) throw;
    return ExitCode::ok;
  }
  print(session, arguments.markdown ? markdown(reference) : help_text(reference));
  return ExitCode::ok;
}

ExitCode run_config(const ConfigArguments& arguments, Session& session) {
  if (arguments.makes()) return make(arguments, session);
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
          "Check a configuration and print it in full, with where each value came from; or make a "
          "new one, or tell which keys there are",
          "  longspan config configs/quickstart.yaml\n"
          "  longspan config configs/quickstart.yaml --set training.max_steps=100\n"
          "  longspan config --reference\n"
          "  longspan config --reference model.attention.layer_types\n"
          "  longspan config --reference dropout configs/quickstart.yaml\n"
          "  longspan config --new decoder > my-run.yaml\n"
          "  longspan config --schema > longspan.schema.json\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<ConfigArguments>();
            add_configuration(app, arguments->configuration, false);
            app.add_option("WORD",
                           arguments->words,
                           "with --reference: print only keys of this section, that begin so, or "
                           "of which a word of the name, of the meaning or of the field's names "
                           "(as lr, batch_size or hidden_size) begins so")
                ->check(not_empty_text());
            app.add_flag("--reference",
                         arguments->reference,
                         "print every key and what it means; with CONFIG (a name that ends in "
                         ".yaml, .yml or .json, or has a /) those of its family and what it sets");
            app.add_flag("--markdown", arguments->markdown, "the reference as a page of Markdown");
            app.add_option("--new",
                           arguments->family,
                           "print a small configuration of this family, with a comment for each "
                           "key, that trains once data.train is set (of pairs "
                           "data.train_target too)")
                ->check(CLI::IsMember(family_names()));
            app.add_flag("--schema",
                         arguments->schema,
                         "print a JSON Schema (draft 2020-12) of configurations, with which "
                         "editors complete and check them");
            return [arguments](Session& session) { return run_config(*arguments, session); };
          }};
}

}  // namespace longspan
