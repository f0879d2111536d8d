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
  std::string family;  // --template
  bool schema = false;

  bool makes() const { return schema || !family.empty(); }
};

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.name);
  return names;
}

// Handles options that need no configuration.
ExitCode make(const ConfigArguments& arguments, Session& session) {
  const auto& [file, settings] = arguments.configuration;
  if (!file.empty() || !settings.empty() || arguments.reference || arguments.markdown ||
      (arguments.schema && !arguments.family.empty()))
    throw ConfigurationError("longspan config: {} cannot be combined with CONFIG or other options",
                             arguments.schema ? "--schema" : "--template");
  print(session,
        arguments.schema ? json_text(configuration_schema()) : config_template(arguments.family));
  return ExitCode::ok;
}

// Prints the reference, of the configuration if there is one, for the search words.
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
      throw ConfigurationError("longspan config: --set with --reference requires CONFIG");
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
  if (file.empty()) throw ConfigurationError("longspan config: requires CONFIG or --reference");
  if (!arguments.words.empty())
    throw ConfigurationError(
        "longspan config: unexpected \"{}\" after CONFIG; add --reference to search for it",
        arguments.words.front());
  const auto configuration = configure(read_configuration(file, settings, session.world()));
  print(session, configuration->table.resolved());
  warn(session, configuration->table.warnings());
  return ExitCode::ok;
}

}  // namespace

Command config_command() {
  return {"config",
          "Check a configuration and print all values with their sources, or print the key "
          "reference, a template or a JSON Schema",
          "  longspan config configs/quickstart.yaml\n"
          "  longspan config configs/quickstart.yaml --set training.max_steps=100\n"
          "  longspan config --reference\n"
          "  longspan config --reference model.attention.layer_types\n"
          "  longspan config --reference dropout configs/quickstart.yaml\n"
          "  longspan config --template decoder > my-run.yaml\n"
          "  longspan config --schema > longspan.schema.json\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<ConfigArguments>();
            add_configuration(app, arguments->configuration, false);
            app.add_option("FILTER",
                           arguments->words,
                           "keys to print: a section, a prefix, or the beginning of a word in the "
                           "name, description or aliases of a key, such as lr, batch_size or "
                           "hidden_size (default: all keys). Only with --reference or --markdown.")
                ->check(not_empty_text());
            app.add_flag("--reference",
                         arguments->reference,
                         "reference of all keys with their descriptions; with CONFIG (a name that "
                         "ends in .yaml, .yml or .json, or contains /), of the keys of its family, "
                         "with the values that it sets");
            app.add_flag("--markdown", arguments->markdown, "reference as a Markdown page");
            app.add_option("--template",
                           arguments->family,
                           "family of a small configuration to print, with a comment for each key; "
                           "training also requires data.train, and data.train_target for pairs")
                ->check(CLI::IsMember(family_names()));
            app.add_flag("--schema",
                         arguments->schema,
                         "JSON Schema (draft 2020-12) of configurations, for completion and checks "
                         "in editors");
            return [arguments](Session& session) { return run_config(*arguments, session); };
          }};
}

}  // namespace longspan
