#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/byte_text.h"
#include "framework/report/log_warnings.h"
#include "framework/report/report_page.h"
#include "framework/runs/run_state.h"
#include "launch/command.h"
#include "launch/configuration_text.h"
#include "launch/number_check.h"
#include "launch/yaml.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> runs;
  std::string output;
  bool replace = false;
};

std::string value_text(const Assignment& assignment) {
  switch (assignment.kind) {
    case Assignment::Kind::scalar:
      return assignment.scalars.front().text;
    case Assignment::Kind::list: {
      std::string text;
      for (const ListItem& item : assignment.scalars)
        text += (text.empty() ? "" : ", ") + item.found();
      return "[" + text + "]";
    }
    case Assignment::Kind::nothing:
    case Assignment::Kind::section:
      break;
  }
  return "";
}

// Its keys and values as they are written; none where it is not there or cannot be read. The
// directory is the run's name already.
std::map<std::string, std::string> configuration_of(const fs::path& path) {
  std::error_code error;
  std::map<std::string, std::string> values;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error || bytes > most_configuration_bytes) return values;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const Assignment& assignment : read_yaml(text, path.string()).assignments)
    if (assignment.key != "run.directory") values[assignment.key] = value_text(assignment);
  return values;
}

std::optional<std::int64_t> steps_of(const std::map<std::string, std::string>& configuration) {
  const auto found = configuration.find("training.steps");
  if (found == configuration.end()) return std::nullopt;
  std::int64_t steps = 0;
  const std::string& word = found->second;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), steps);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return steps;
}

ReportedRun read_run(const fs::path& path) {
  std::error_code unused;
  if (!fs::exists(path, unused)) throw DataError("{}: there is no such directory", path.string());
  if (!fs::is_directory(path, unused))
    throw DataError("{}: is a file; wanted: the directory of a run", path.string());
  // Asked first: a run that ends while it is read has then written more than it said.
  const bool runs_now = is_running(path);
  ReportedRun run = {.name = path.string(),
                     .state = {},
                     .metrics = read_run_metrics(path / "metrics.jsonl"),
                     .configuration = configuration_of(path / "config.yaml"),
                     .warnings = log_warnings(path / "log.txt")};
  run.steps = steps_of(run.configuration);
  run.state = runs_now                                      ? "running"
              : run.steps && run.metrics.step >= *run.steps ? "finished"
                                                            : "not running";
  return run;
}

// Each named once, without a "/" at its end.
std::vector<fs::path> named_runs(const std::vector<std::string>& names) {
  std::vector<fs::path> paths;
  std::set<fs::path> seen;
  for (const std::string& name : names) {
    fs::path path = fs::path(name).lexically_normal();
    if (path.filename().empty() && path.has_parent_path() && path != path.root_path())
      path = path.parent_path();
    if (!seen.insert(path).second)
      throw ConfigurationError("RUN: {} is named twice; wanted: each run once", path.string());
    paths.push_back(std::move(path));
  }
  return paths;
}

void judge_output(const Arguments& arguments) {
  std::error_code error;
  const fs::path path = arguments.output;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    throw ConfigurationError("--output: {} is a directory; wanted: a file", path.string());
  if (fs::exists(status) && !arguments.replace)
    throw ConfigurationError(
        "--output: {} is there already; wanted: a new file, or --replace to write over it",
        path.string());
}

// Whole or not at all.
void write_page(const fs::path& path, const std::string& page) {
  fs::path beside = path;
  beside += ".tmp-" + unique_id();
  std::error_code error;
  try {
    write_text_file(beside, page);
  } catch (const Failure& failure) {
    fs::remove(beside, error);
    throw Failure("{}: cannot be written: {}", path.string(), failure.what());
  }
  fs::rename(beside, path, error);
  if (!error) return;
  const std::string why = error.message();
  fs::remove(beside, error);
  throw Failure("{}: cannot be written: {}", path.string(), why);
}

ExitCode run(const Arguments& arguments, Session& session) {
  if (session.world().rank() != 0) return ExitCode::ok;
  const ChartLibrary* const library = chart_library();
  if (library == nullptr)
    throw Failure(
        "this program was built without dygraphs, which draws the curves of a report; wanted: "
        "dygraph.min.js with its licence (Debian's package libjs-dygraphs, or -D DYGRAPHS_DIR=...) "
        "when it is built");
  const std::vector<fs::path> paths = named_runs(arguments.runs);
  judge_output(arguments);
  std::vector<ReportedRun> runs;
  for (const fs::path& path : paths) runs.push_back(read_run(path));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const std::string page = report_page(std::move(runs), seconds, *library);
  write_page(arguments.output, page);
  print(session,
        fmt::format("{}: {}, of {} run{}\n",
                    arguments.output,
                    byte_text(static_cast<double>(page.size())),
                    paths.size(),
                    paths.size() == 1 ? "" : "s"));
  return ExitCode::ok;
}

}  // namespace

Command report_command() {
  return {"report",
          "Draw runs into one HTML page",
          "  longspan report runs/quickstart --output report.html\n"
          "  longspan report runs/small runs/large --output both.html\n"
          "  longspan report runs/large --output large.html --replace\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<Arguments>();
            app.add_option("RUN",
                           arguments->runs,
                           "directories of runs, which may be training now; the curves of several "
                           "are drawn over each other")
                ->required()
                ->check(not_empty_text());
            app.add_option(
                   "--output", arguments->output, "the file to write, a page that needs no network")
                ->required()
                ->check(not_empty_text());
            app.add_flag("--replace", arguments->replace, "write over a file that is there");
            return [arguments](Session& session) { return run(*arguments, session); };
          }};
}

}  // namespace longspan
