#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/byte_text.h"
#include "framework/report/log_warnings.h"
#include "framework/report/report_page.h"
#include "launch/command.h"
#include "launch/number_check.h"
#include "launch/run_record.h"
#include "launch/text_table.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> runs;
  std::string output;
  bool replace = false;
};

// The directory is the run's name already.
std::map<std::string, std::string> without_directory(std::map<std::string, std::string> values) {
  values.erase("run.directory");
  return values;
}

// Adds to `troubles` what of it cannot be read beside its metrics.
ReportedRun read_run(const fs::path& path, std::vector<std::string>& troubles) {
  // Its state is asked for first: a run that ends while it is read has then written more than it
  // said.
  RunRecord record = read_named_run(path);
  ReportedRun run = {.name = path.string(),
                     .state = name_of(record.state),
                     .steps = record.steps,
                     .metrics = read_run_metrics(path / "metrics.jsonl"),
                     .configuration = without_directory(std::move(record.configuration.values)),
                     .warnings = log_warnings(path / "log.txt")};
  std::ranges::move(record.troubles, std::back_inserter(troubles));
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
  // The page takes its place: of /dev/null nothing would be left.
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw ConfigurationError("--output: {} is a device or a pipe; wanted: a file", path.string());
  // A link that leads nowhere would be replaced, too.
  if (fs::exists(fs::symlink_status(path, error)) && !arguments.replace)
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
  std::vector<std::string> troubles;
  for (const fs::path& path : paths) runs.push_back(read_run(path, troubles));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const std::string page = report_page(std::move(runs), seconds, *library);
  write_page(arguments.output, page);
  for (const std::string& trouble : troubles) inform(session, on_one_line(trouble));
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
