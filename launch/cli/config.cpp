// longspan config: the resolved configuration, the reference of keys, and templates.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/configuration_keys.h"
#include "launch/cli/reference.h"
#include "launch/cli/run_record.h"
#include "launch/cli/schema.h"

namespace longspan {

namespace {

constexpr std::size_t width = 100;  // columns per line

struct KeyLine {
  std::string key;
  std::string value;
  bool is_commented = false;  // the user must set it, or it has no effect until another key is set
};

bool reads_images(const Family& family) { return family.tasks.front() == "image_generation"; }
bool reads_pairs(const Family& family) { return family.tasks.front() == "translation"; }

std::vector<KeyLine> data_lines(const Family& family, const TaskSpec& task) {
  std::vector<KeyLine> lines;
  if (reads_images(family)) {
    lines.push_back({"data.format", "images"});
    lines.push_back({"data.train", "train-images.idx", true});
    lines.push_back({"data.validation", "validation-images.idx", true});
  } else {
    lines.push_back({"data.train", "train.txt", true});
    if (reads_pairs(family)) lines.push_back({"data.train_target", "train-targets.txt", true});
    lines.push_back({"data.validation", "validation.txt", true});
    if (reads_pairs(family))
      lines.push_back({"data.validation_target", "validation-targets.txt", true});
  }
  if (task.reads_streams) {
    lines.push_back({"data.global_batch_size", "8"});
    lines.push_back({"data.seq_length", "128"});
  } else {
    lines.push_back({"data.global_batch_tokens", "8192"});
    lines.push_back({"data.max_length", reads_images(family) ? "4096" : "256"});
    if (!reads_images(family)) lines.push_back({"data.overlong_examples", "truncate"});
  }
  return lines;
}

// Keys that the family's table lacks are dropped later.
std::vector<KeyLine> lines_of(const Family& family) {
  const std::string task_name = family.tasks.front();
  const TaskSpec& task = task_kind(task_name);
  std::vector<KeyLine> lines = {{"run.output_dir", "runs/my-" + family.name}, {"run.seed", "1"}};
  if (task_name != "language_modeling") lines.push_back({"run.task", task_name});
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"model.family", family.name},
           {"model.num_hidden_layers", "2"},
           {"model.hidden_size", "128"},
           {"model.num_attention_heads", "4"},
           {"model.mem_len", "128"},
           {"model.dropout", "0.1"}})
    lines.push_back({key, value});
  std::ranges::move(data_lines(family, task), std::back_inserter(lines));
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"training.max_steps", "1000"},
           {"training.learning_rate", "0.001"},
           {"training.lr_scheduler.warmup_steps", "100"},
           {"training.max_grad_norm", "1"},
           {"training.validation.interval", "200"},
           {"checkpoint.save_interval", "200"},
           {"metrics.log_interval", "20"}})
    lines.push_back({key, value, key == std::string_view("training.validation.interval")});
  return lines;
}

// Formats the words as comment lines with an indentation.
std::string comment(const std::string& words, std::size_t indentation) {
  const std::string begin = std::string(indentation, ' ') + "#";
  std::string text;
  std::string line = begin;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    if (line.size() + 1 + word.size() > width && line.size() > begin.size()) {
      text += line + "\n";
      line = begin;
    }
    line += " " + word;
  }
  return text + line + "\n";
}

std::string meaning(const OptionDescription& option) {
  const std::string allowed = option.allowed.empty() ? option.type : option.allowed;
  return fmt::format("{} ({}{})",
                     option.documentation,
                     allowed,
                     option.default_value.empty() ? "" : "; default " + option.default_value);
}

std::string introduction(const Family& family) {
  const std::string data = reads_pairs(family) ? "data.train and data.train_target" : "data.train";
  std::string text =
      comment(fmt::format("{}: {}. Small example: set {}, then run longspan train FILE.",
                          family.name,
                          family.documentation,
                          data),
              0);
  if (family.tasks.size() > 1)
    text += comment(fmt::format("run.task can also be {}.",
                                fmt::join(family.tasks.begin() + 1, family.tasks.end(), " or ")),
                    0);
  return text + comment("All other keys: longspan config --reference FILE", 0);
}

// Returns YAML with a comment for each key, from the option tables. It describes a small model that
// trains once the data keys are set, which are commented out. Throws Failure for an unknown family.
std::string config_template(const std::string& name) {
  const auto family = std::ranges::find(families(), name, &Family::name);
  require(family != families().end(), "no such family: {}", name);
  Configuration configuration;
  declare_all(configuration, &*family);
  std::map<std::string, OptionDescription> options;
  for (OptionDescription& option : configuration.table.reference())
    options.emplace(option.key, std::move(option));
  std::string text = introduction(*family);
  std::string open;  // open sections of the last line
  for (const KeyLine& line : lines_of(*family)) {
    const auto option = options.find(line.key);
    if (option == options.end()) continue;
    // "a.b." of the key "a.b.c".
    const std::string sections = line.key.substr(0, line.key.rfind('.') + 1);
    std::size_t indentation = 0, begin = 0;
    for (std::size_t dot = sections.find('.'); dot != std::string::npos;
         dot = sections.find('.', begin)) {
      if (!open.starts_with(sections.substr(0, dot + 1)))
        text += fmt::format("{}{}{}:\n",
                            begin == 0 && !open.empty() ? "\n" : "",
                            std::string(indentation, ' '),
                            sections.substr(begin, dot - begin));
      begin = dot + 1;
      indentation += 2;
    }
    open = sections;
    text += comment(meaning(option->second), indentation);
    text += fmt::format("{}{}{}: {}\n",
                        std::string(indentation, ' '),
                        line.is_commented ? "# " : "",
                        line.key.substr(begin),
                        line.value);
  }
  return text;
}

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
