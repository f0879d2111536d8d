// longspan compare: differences between runs, side by side.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/run_record.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

constexpr const char* directory_key = "run.output_dir";  // differs between any two runs

constexpr int max_compared = 1000;

struct CompareArguments {
  std::vector<std::string> runs;
  bool json = false;
};

using Values = std::vector<std::optional<std::string>>;  // one per run, for a key; empty: none

// Returns the keys whose values differ between runs with a configuration.
std::map<std::string, Values> differences(const std::vector<RunRecord>& runs) {
  std::set<std::string> keys;
  for (const RunRecord& run : runs)
    for (const auto& [key, value] : run.configuration.values) keys.insert(key);
  std::map<std::string, Values> found;
  for (const std::string& key : keys) {
    if (key == directory_key) continue;
    Values values;
    std::set<std::optional<std::string>> different;
    for (const RunRecord& run : runs) {
      const auto value = run.configuration.values.find(key);
      const bool has = value != run.configuration.values.end();
      values.push_back(has ? std::optional(value->second) : std::nullopt);
      if (!run.configuration.values.empty()) different.insert(values.back());
    }
    if (different.size() > 1) found.emplace(key, std::move(values));
  }
  return found;
}

// Returns the metrics of a run's last line, updated with those of its last validation.
MetricsLine figures_of(const RunRecord& run) {
  MetricsLine figures = run.last.is_null() ? MetricsLine::object() : run.last;
  if (run.validation.is_null()) return figures;
  for (const auto& [name, value] : run.validation.items())
    if (is_validation_metric(name)) figures[name] = value;
  return figures;
}

std::vector<std::string> names_of(const std::vector<MetricsLine>& figures) {
  std::vector<std::string> names;
  for (const MetricsLine& line : figures)
    for (const auto& [name, value] : line.items())
      if (name != "step" && !name.ends_with("_reason") &&
          std::ranges::find(names, name) == names.end())
        names.push_back(name);
  return names;
}

std::string comparison_table(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> rows = {{""}, {"state"}, {"step"}};
  std::vector<MetricsLine> figures;
  std::string notes;
  for (const RunRecord& run : runs) {
    rows[0].push_back(run.path.string());
    rows[1].push_back(name_of(run.state));
    rows[2].push_back(step_text(run));
    figures.push_back(figures_of(run));
    for (const std::string& trouble : run.errors) notes += on_one_line(trouble) + "\n";
  }
  for (const std::string& name : names_of(figures)) {
    rows.push_back({name});
    for (const MetricsLine& line : figures) {
      const std::string text = format_metric(line, name);
      rows.back().push_back(text.empty() ? "-" : text);
    }
  }
  const auto different = differences(runs);
  rows.push_back({});
  if (different.empty()) rows.push_back({"no keys differ"});
  for (const auto& [key, values] : different) {
    rows.push_back({key});
    for (const auto& value : values) rows.back().push_back(value.value_or("-"));
  }
  return aligned(rows) + (notes.empty() ? "" : "\n" + notes);
}

nlohmann::ordered_json to_json(const std::vector<RunRecord>& runs) {
  nlohmann::ordered_json json = {{"runs", nlohmann::ordered_json::array()},
                                 {"keys", nlohmann::ordered_json::object()}};
  for (const RunRecord& run : runs) json["runs"].push_back(longspan::to_json(run));
  for (const auto& [key, values] : differences(runs)) {
    auto& list = json["keys"][key] = nlohmann::ordered_json::array();
    for (const auto& value : values)
      list.push_back(value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json());
  }
  return json;
}

ExitCode run_compare(const CompareArguments& arguments, Session& session) {
  if (session.world().rank() != 0) return ExitCode::ok;
  std::vector<RunRecord> runs;
  for (const std::string& path : arguments.runs) runs.push_back(read_run(path));
  print(session, arguments.json ? json_text(to_json(runs)) : comparison_table(runs));
  return ExitCode::ok;
}

}  // namespace

Command compare_command() {
  return {.name = "compare",
          .description =
              "Compare the last metrics of runs, and the configuration keys that differ (except "
              "run.output_dir)",
          .examples =
              "  longspan compare runs/one runs/other\n"
              "  longspan compare runs/families/* --json\n",
          .bind = [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<CompareArguments>();
            app.add_option("RUN", arguments->runs, "run directories, at least two")
                ->required()
                ->expected(2, max_compared)
                ->check(not_empty_text());
            app.add_flag(
                "--json",
                arguments->json,
                "output as one JSON object: `runs` as in longspan list --json, and `keys` with the "
                "values of each key that differs (null: absent key)");
            return [arguments](Session& session) { return run_compare(*arguments, session); };
          }};
}

}  // namespace longspan
