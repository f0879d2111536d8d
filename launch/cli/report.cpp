#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <set>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/byte_text.h"
#include "framework/report/page_server.h"
#include "framework/report/report_page.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/run_watcher.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output;
  bool replace = false;
  bool watch = false;
  std::int64_t port = 0;
};

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

void judge_output(const ReportArguments& arguments) {
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

const ChartLibrary& library() {
  const ChartLibrary* const found = chart_library();
  if (found == nullptr)
    throw Failure(
        "this program was built without dygraphs, which draws the curves of a report; wanted: "
        "dygraph.min.js with its licence (Debian's package libjs-dygraphs, or -D DYGRAPHS_DIR=...) "
        "when it is built");
  return *found;
}

ExitCode draw(const ReportArguments& arguments, Session& session) {
  if (session.world().rank() != 0) return ExitCode::ok;
  const ChartLibrary& curves = library();
  const std::vector<fs::path> paths = named_runs(arguments.runs);
  judge_output(arguments);
  std::vector<ReportedRun> runs;
  std::vector<std::string> troubles;
  for (const fs::path& path : paths) runs.push_back(read_reported_run(path, troubles));
  const std::string page = report_page(std::move(runs), seconds_now(), curves);
  write_page(arguments.output, page);
  for (const std::string& trouble : troubles) inform(session, on_one_line(trouble));
  print(session,
        fmt::format("{}: {}, of {} run{}\n",
                    arguments.output,
                    format_bytes(static_cast<double>(page.size())),
                    paths.size(),
                    paths.size() == 1 ? "" : "s"));
  return ExitCode::ok;
}

ExitCode watch(const ReportArguments& arguments, Session& session) {
  if (const int ranks = session.world().size(); ranks > 1)
    throw ConfigurationError("--watch: found {} ranks; one process serves the page", ranks);
  RunWatcher runs(named_runs(arguments.runs), library());
  PageServer server(arguments.port,
                    {.version = [&runs] { return runs.version(); },
                     .page = [&runs] { return runs.page(); },
                     .update = [&runs] { return runs.update(); }});
  print(session, server.address() + "\n");
  inform(session, "the page is there until this program is stopped (Ctrl-C)");
  server.run();
  return ExitCode::ok;
}

ExitCode run_report(const ReportArguments& arguments, Session& session) {
  if (arguments.watch) return watch(arguments, session);
  if (arguments.output.empty())
    throw ConfigurationError("longspan report: --output FILE is required, or --watch");
  return draw(arguments, session);
}

}  // namespace

Command report_command() {
  return {
      "report",
      "Draw runs into one HTML page",
      "  longspan report runs/quickstart --output report.html\n"
      "  longspan report runs/small runs/large --output both.html\n"
      "  longspan report runs/large --output large.html --replace\n"
      "  longspan report runs/large --watch\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<ReportArguments>();
        app.add_option("RUN",
                       arguments->runs,
                       "directories of runs, which may be training now; the curves of several "
                       "are drawn over each other")
            ->required()
            ->check(not_empty_text());
        auto* output =
            app.add_option(
                   "--output", arguments->output, "the file to write, a page that needs no network")
                ->check(not_empty_text());
        auto* replace =
            app.add_flag("--replace", arguments->replace, "write over a file that is there")
                ->needs(output);
        auto* watch =
            app.add_flag("--watch",
                         arguments->watch,
                         "instead of a file: serve the page to a browser on this machine, at an "
                         "address that is printed and that no other user knows, and keep it up "
                         "to date with the runs until it is stopped (Ctrl-C)")
                ->excludes(output)
                ->excludes(replace);
        app.add_option("--port", arguments->port, "of that address; without it a free one")
            ->transform(whole_number<std::int64_t>(1, 65535))
            ->needs(watch);
        return [arguments](Session& session) { return run_report(*arguments, session); };
      }};
}

}  // namespace longspan
