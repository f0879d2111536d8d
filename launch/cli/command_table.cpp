#include "launch/cli/command_table.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <utility>

namespace longspan {
namespace {

// Returns "a", "b" for a type name that ends in {a,b}.
std::vector<std::string> choices_in(const std::string& type) {
  std::vector<std::string> choices;
  const std::size_t open = type.find('{');
  const std::size_t close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::size_t begin = open + 1;
  while (begin <= close) {
    const std::size_t end = std::min(type.find(',', begin), close);
    choices.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

// Returns the type name alone: the parser appends descriptions of the validators.
std::string value_name(const CLI::Option& option) {
  std::string name = option.get_type_name();
  try {
    for (int i = 0;; ++i) {
      const std::string check =
          const_cast<CLI::Option&>(option).get_validator(i)->get_description();
      if (!check.empty()) name.resize(name.size() - check.size() - 1);
    }
  } catch (const CLI::OptionNotFound&) {  // the previous one was the last
  }
  return name;
}

CommandOption option_of(const CLI::Option& option) {
  CommandOption result;
  if (option.get_positional()) {
    result.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() > 0) {
    result.choices = choices_in(option.get_type_name());
    result.value = value_name(option);
    if (result.value.empty()) result.value = "VALUE";
  }
  result.meaning = option.get_description();
  result.required = option.get_required();
  result.repeats = option.get_items_expected_max() > 1;
  return result;
}

CommandEntry entry_of(const CLI::App& app, std::vector<std::string> words) {
  CommandEntry entry;
  entry.words = std::move(words);
  entry.description = app.get_description();
  entry.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? entry.places : entry.options).push_back(option_of(*option));
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string> longer = entry.words;
    longer.push_back(below->get_name());
    entry.commands.push_back(entry_of(*below, std::move(longer)));
  }
  return entry;
}

}  // namespace

std::string CommandEntry::name() const { return fmt::format("{}", fmt::join(words, " ")); }

std::string_view summary_of(std::string_view description) {
  return description.substr(0, description.find('\n'));
}

CommandEntry command_table(const CLI::App& app) { return entry_of(app, {}); }

std::vector<const CommandEntry*> all_commands(const CommandEntry& entry) {
  std::vector<const CommandEntry*> all = {&entry};
  for (const CommandEntry& below : entry.commands) {
    const auto more = all_commands(below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace longspan
