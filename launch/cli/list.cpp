// longspan list: status of all runs under a directory.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/run_record.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

struct ListArguments {
  std::string folder = "runs";
  bool json = false;
};

std::string list_table(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> rows = {
      {"run", "state", "step", "loss", "validation", "modified (UTC)", "data x context x tensor"}};
  std::string notes;
  for (const RunRecord& run : runs) {
    rows.push_back({run.path.string(),
                    name_of(run.state),
                    step_text(run),
                    run.last.is_null() ? "" : format_metric(run.last, "loss"),
                    validation_text(run),
                    time_text(run.changed_at),
                    layout_text(run)});
    if (!run.ended_by.empty())
      notes += on_one_line(fmt::format("{}: {}", run.path.string(), run.ended_by)) + "\n";
    for (const std::string& trouble : run.errors) notes += on_one_line(trouble) + "\n";
  }
  return aligned(rows) + (notes.empty() ? "" : "\n" + notes);
}

ExitCode run_list(const ListArguments& arguments, Session& session) {
  if (session.world().rank() != 0) return ExitCode::ok;
  std::vector<RunRecord> runs;
  const RunsBelow found = runs_below(arguments.folder);
  for (const auto& path : found.runs) runs.push_back(read_run_record(path));
  if (arguments.json) {
    auto list = nlohmann::ordered_json::array();
    for (const RunRecord& record : runs) list.push_back(to_json(record));
    print(session, json_text(list));
  } else if (runs.empty()) {
    print(session, fmt::format("{}: no runs found\n", arguments.folder));
  } else {
    print(session, list_table(runs));
  }
  for (const std::string& trouble : found.errors) inform(session, on_one_line(trouble));
  return ExitCode::ok;
}

}  // namespace

Command list_command() {
  return {
      .name = "list",
      .description = "List the runs under a directory with their status, progress and last metrics",
      .examples =
          "  longspan list\n"
          "  longspan list runs/families\n"
          "  longspan list --json\n",
      .bind = [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<ListArguments>();
        app.add_option("FOLDER", arguments->folder, "directory to search (default: runs)")
            ->check(not_empty_text());
        app.add_flag(
            "--json",
            arguments->json,
            "output as a JSON array of one object per run; `last_metrics` and `validation` are "
            "lines of its metrics.jsonl");
        return [arguments](Session& session) { return run_list(*arguments, session); };
      }};
}

}  // namespace longspan
