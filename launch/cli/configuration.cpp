#include "launch/cli/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "framework/nn/attention/attention_kinds.h"
#include "framework/options/field_names.h"
#include "launch/cli/configuration_keys.h"
#include "launch/cli/saved_config.h"
#include "launch/cli/yaml.h"

namespace longspan {
namespace {

constexpr std::array<std::string_view, 4> layout_keys = {"parallel.data_parallel_size",
                                                         "parallel.context_parallel_size",
                                                         "parallel.tensor_parallel_size",
                                                         "parallel.sequence_parallel"};

const Family* find_family(const std::string& name) {
  for (const Family& family : families()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

// For each key that a family declares, the families that do.
std::map<std::string, std::vector<std::string>> owners_of_keys() {
  std::map<std::string, std::vector<std::string>> owners;
  for (const Family& family : families()) {
    OptionTable table;
    const BackboneFactory unused = family.declare(table, {});
    for (const OptionDescription& option : table.reference()) {
      owners[option.key].push_back(family.name);
    }
  }
  return owners;
}

// Adds specific messages for keys of other families.
void note_keys_of_others(OptionTable& table, const Family& family) {
  for (const auto& [key, names] : owners_of_keys()) {
    if (table.has(key)) continue;
    table.note_other_family(
        key,
        fmt::format("requires model.family {}, found {}", fmt::join(names, " or "), family.name));
  }
}

// Returns the last family set, before anything else is validated.
const Family* chosen_family(const std::vector<Assignment>& assignments) {
  const Family* family = nullptr;
  for (const Assignment& assignment : assignments) {
    if (assignment.key != family_key || assignment.kind != Assignment::Kind::scalar) continue;
    family = find_family(assignment.scalars.front().text);
  }
  return family;
}

// If a text could not be parsed to its end, missing keys are not reported as errors.
void check_all_keys_read(const std::vector<ParsedYaml>& layers) {
  if (std::ranges::all_of(layers, &ParsedYaml::whole)) return;
  OptionTable complaints;
  for (const ParsedYaml& layer : layers)
    for (const Diagnostic& diagnostic : layer.complaints) complaints.add_diagnostic(diagnostic);
  complaints.finish();
}

// All assignments, with the diagnostics of parsing.
struct Written {
  std::vector<Assignment> assignments;
  std::vector<Diagnostic> complaints;
};

Written read_layers(const ConfigurationText& source) {
  std::vector<ParsedYaml> layers;
  if (!source.file.empty()) layers.push_back(read_yaml(source.text, source.file));
  if (!source.has_lines)
    for (ParsedYaml& layer : layers) {
      for (Assignment& assignment : layer.assignments) assignment.mark = {source.file};
      for (Diagnostic& diagnostic : layer.complaints) diagnostic.mark = {source.file};
    }
  for (const std::string& setting : source.settings) layers.push_back(read_setting(setting));

  check_all_keys_read(layers);
  if (source.of_another_job)
    std::erase_if(layers.front().assignments, [](const Assignment& assignment) {
      return std::ranges::count(layout_keys, assignment.key) > 0;
    });
  Written written;
  for (ParsedYaml& layer : layers) {
    std::ranges::move(layer.assignments, std::back_inserter(written.assignments));
    std::ranges::move(layer.complaints, std::back_inserter(written.complaints));
  }
  return written;
}

// The table contains all diagnostics about the assignments.
std::unique_ptr<Configuration> judge(const ConfigurationText& source,
                                     const Family* family,
                                     const std::vector<Assignment>& assignments) {
  auto configuration = std::make_unique<Configuration>();
  declare_all(*configuration, family);
  declare_checks(*configuration);
  if (!source.of_another_job) declare_batch_checks(*configuration);
  if (family != nullptr) note_keys_of_others(configuration->table, *family);
  if (source.home) configuration->table.set_home(*source.home);
  configuration->table.assign(assignments);
  return configuration;
}

// Returns the diagnostics under that family, whatever family the assignments name.
std::vector<Diagnostic> errors_under(const ConfigurationText& source,
                                     const Family& family,
                                     std::vector<Assignment>& assignments) {
  bool is_named = false;
  for (Assignment& assignment : assignments) {
    if (assignment.key != family_key) continue;
    assignment.kind = Assignment::Kind::scalar;
    assignment.scalars = {{family.name}};
    is_named = true;
  }
  if (!is_named)
    assignments.push_back(
        {family_key, Assignment::Kind::scalar, {{family.name}}, SourceLocation{source.file}});
  return judge(source, &family, assignments)->table.diagnostics();
}

// Returns the diagnostics for an unknown family: errors under every family that has the key. There
// may be a hundred thousand assignments.
std::vector<Diagnostic> errors_under_every_family(const ConfigurationText& source,
                                                  std::vector<Assignment> assignments) {
  struct Judgement {
    std::vector<Diagnostic> errors;  // for keys of the family
    std::set<std::string> lines;     // their texts
    std::set<std::string, std::less<>> unknown_keys;
  };
  const auto line = [](const Diagnostic& diagnostic) {
    return diagnostic.mark.to_string() + diagnostic.message;
  };
  std::vector<Diagnostic> unknown;  // for the first family
  std::vector<Judgement> judgements;
  for (const Family& family : families()) {
    Judgement& judgement = judgements.emplace_back();
    for (Diagnostic& mistake : errors_under(source, family, assignments)) {
      if (mistake.unknown_key) {
        judgement.unknown_keys.insert(mistake.key);
        if (judgements.size() == 1) unknown.push_back(std::move(mistake));
      } else {
        judgement.lines.insert(line(mistake));
        judgement.errors.push_back(std::move(mistake));
      }
    }
  }
  std::vector<Diagnostic> found;
  std::vector<std::string> known = {family_key};
  for (const auto& [key, names] : owners_of_keys()) known.push_back(key);
  std::size_t to_any = 0;
  for (Diagnostic& mistake : unknown) {
    const bool is_one = std::ranges::all_of(judgements, [&](const Judgement& other) {
      return other.unknown_keys.contains(mistake.key);
    });
    if (!is_one) continue;
    if (mistake.key.starts_with("model.")) {
      mistake.message = fmt::format("{}: unknown key of every model.family{}",
                                    mistake.key,
                                    ++to_any > max_reported ? "" : key_hint(mistake.key, known));
    }
    found.push_back(std::move(mistake));
  }
  std::set<std::string> told;
  for (Judgement& judgement : judgements) {
    for (Diagnostic& mistake : judgement.errors) {
      const std::string description = line(mistake);
      const bool is_one = std::ranges::all_of(judgements, [&](const Judgement& other) {
        return other.unknown_keys.contains(mistake.key) || other.lines.contains(description);
      });
      if (is_one && told.insert(description).second) found.push_back(std::move(mistake));
    }
  }
  return found;
}

// Includes the diagnostic about the unknown family.
std::vector<Diagnostic> errors_without_family(const ConfigurationText& source,
                                              const std::vector<Assignment>& assignments) {
  std::vector<Diagnostic> errors = errors_under_every_family(source, assignments);
  std::vector<Assignment> of_all = assignments;
  std::erase_if(of_all, [](const Assignment& assignment) {
    return assignment.key.starts_with("model.") && assignment.key != family_key;
  });
  const bool none_left = of_all.empty() && !source.file.empty();  // only its name locates it
  for (Diagnostic& mistake : judge(source, nullptr, of_all)->table.diagnostics()) {
    if (mistake.key != family_key) continue;
    if (none_left) mistake.mark = SourceLocation{source.file};
    errors.push_back(std::move(mistake));
  }
  return errors;
}

}  // namespace

std::unique_ptr<Configuration> configure(const ConfigurationText& source) {
  Written written = read_layers(source);
  const Family* family = chosen_family(written.assignments);
  std::unique_ptr<Configuration> configuration;
  if (family != nullptr) configuration = judge(source, family, written.assignments);
  std::vector<Diagnostic> errors = std::move(written.complaints);
  std::ranges::move(family != nullptr ? configuration->table.diagnostics()
                                      : errors_without_family(source, written.assignments),
                    std::back_inserter(errors));
  throw_if_any(std::move(errors));
  return configuration;
}

namespace {

// Returns whether equal weights compute another function in sequences of another maximum length.
bool depends_on_length(const OptionTable& table) {
  if (!layer_type({"fnet"}).reason(table).empty()) return false;
  return std::ranges::any_of(table.values(), [](const OptionValue& value) {
    return value.key == "model.attention.token_mixing.max_length" && value.text == "none";
  });
}

}  // namespace

ConfigurationChange compare(const Configuration& configuration, const std::string& saved) {
  std::map<std::string, std::string> before;
  const ParsedYaml written = read_yaml(saved, "configuration");
  if (!written.complaints.empty()) {
    const Diagnostic& first = written.complaints.front();
    throw DataError("{}: {}", first.mark.to_string(), first.message);
  }
  for (const Assignment& assignment : written.assignments) {
    before[assignment.key] = text_of(assignment);
  }
  ConfigurationChange change;
  change.saved = before;
  for (const OptionValue& value : configuration.table.values()) {
    const auto found = before.find(value.key);
    // A key that an older version lacked behaves as in that version.
    if (found == before.end() && value.place == "default") continue;
    const std::string was = found == before.end() ? "no such key" : found->second;
    if (found != before.end()) before.erase(found);
    if (was == value.text) continue;
    std::string sentence = fmt::format(
        "{}: checkpoint has {}, config has {} ({})", value.key, was, value.text, value.place);
    const bool is_length = value.key == "data.max_length" || value.key == "data.seq_length";
    if (value.other_weights(was) || (is_length && depends_on_length(configuration.table)))
      change.refused.push_back(sentence);
    change.differences.push_back(std::move(sentence));
  }
  for (const auto& [key, text] : before) {
    change.differences.push_back(
        fmt::format("{}: checkpoint has {}, config has no such key", key, text));
  }
  return change;
}

Reconfigure reconfiguration(const ConfigurationText& source) {
  return [source](const std::vector<std::string>& keys) -> std::shared_ptr<const RunConfig> {
    ConfigurationText changed = source;
    changed.settings.insert(changed.settings.end(), keys.begin(), keys.end());
    return std::shared_ptr<Configuration>(configure(changed));
  };
}

}  // namespace longspan
