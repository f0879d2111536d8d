#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <set>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/format.h"
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

// Returns each path once, without a trailing "/".
std::vector<fs::path> listed_runs(const std::vector<std::string>& names) {
  std::vector<fs::path> paths;
  std::set<fs::path> seen;
  for (const std::string& name : names) {
    fs::path path = fs::path(name).lexically_normal();
    if (path.filename().empty() && path.has_parent_path() && path != path.root_path())
      path = path.parent_path();
    if (!seen.insert(path).second) throw ConfigurationError("RUN: duplicate run {}", path.string());
    paths.push_back(std::move(path));
  }
  return paths;
}

void check_output(const ReportArguments& arguments) {
  std::error_code error;
  const fs::path path = arguments.output;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    throw ConfigurationError("--output: expected a file, found the directory {}", path.string());
  // The page would replace a device such as /dev/null.
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw ConfigurationError("--output: expected a file, found the device or pipe {}",
                             path.string());
  // A dangling link would be replaced, too.
  if (fs::exists(fs::symlink_status(path, error)) && !arguments.replace)
    throw ConfigurationError(
        "--output: {} already exists; name a new file, or pass --overwrite to overwrite it",
        path.string());
}

// Writes atomically.
void write_page(const fs::path& path, const std::string& page) {
  fs::path temporary = path;
  temporary += ".tmp-" + unique_id();
  std::error_code error;
  try {
    write_text_file(temporary, page);
  } catch (const Failure& failure) {
    fs::remove(temporary, error);
    throw Failure("{}: cannot be written: {}", path.string(), failure.what());
  }
  fs::rename(temporary, path, error);
  if (!error) return;
  const std::string why = error.message();
  fs::remove(temporary, error);
  throw Failure("{}: cannot be written: {}", path.string(), why);
}

const ChartLibrary& library() {
  const ChartLibrary* const found = chart_library();
  if (found == nullptr)
    throw Failure(
        "this program was built without dygraphs, which reports require; rebuild it with "
        "dygraph.min.js and its license (Debian package libjs-dygraphs, or -D DYGRAPHS_DIR=...)");
  return *found;
}

ExitCode draw(const ReportArguments& arguments, Session& session) {
  if (session.world().rank() != 0) return ExitCode::ok;
  const ChartLibrary& curves = library();
  const std::vector<fs::path> paths = listed_runs(arguments.runs);
  check_output(arguments);
  std::vector<ReportedRun> runs;
  std::vector<std::string> troubles;
  for (const fs::path& path : paths) runs.push_back(read_reported_run(path, troubles));
  const std::string page = report_page(std::move(runs), seconds_now(), curves);
  write_page(arguments.output, page);
  for (const std::string& trouble : troubles) inform(session, on_one_line(trouble));
  print(session,
        fmt::format("{}: {}, {} run{}\n",
                    arguments.output,
                    format_bytes(static_cast<double>(page.size())),
                    paths.size(),
                    paths.size() == 1 ? "" : "s"));
  return ExitCode::ok;
}

ExitCode watch(const ReportArguments& arguments, Session& session) {
  if (const int ranks = session.world().size(); ranks > 1)
    throw ConfigurationError("--serve: expected 1 rank, found {}", ranks);
  RunWatcher runs(listed_runs(arguments.runs), library());
  PageServer server(arguments.port,
                    {.version = [&runs] { return runs.version(); },
                     .page = [&runs] { return runs.page(); },
                     .update = [&runs] { return runs.update(); }});
  print(session, server.address() + "\n");
  inform(session, "serving the page until stopped with Ctrl-C");
  server.run();
  return ExitCode::ok;
}

ExitCode run_report(const ReportArguments& arguments, Session& session) {
  if (arguments.watch) return watch(arguments, session);
  if (arguments.output.empty())
    throw ConfigurationError("longspan report: requires --output FILE or --serve");
  return draw(arguments, session);
}

}  // namespace

Command report_command() {
  return {
      "report",
      "Write or serve an HTML report of one or more runs",
      "  longspan report runs/quickstart --output report.html\n"
      "  longspan report runs/small runs/large --output both.html\n"
      "  longspan report runs/large --output large.html --overwrite\n"
      "  longspan report runs/large --serve\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<ReportArguments>();
        app.add_option("RUN",
                       arguments->runs,
                       "run directories, finished or in training; the curves of several runs share "
                       "their charts")
            ->required()
            ->check(not_empty_text());
        auto* output =
            app.add_option(
                   "--output", arguments->output, "HTML file to write, readable without a network")
                ->check(not_empty_text());
        auto* replace = app.add_flag("--overwrite",
                                     arguments->replace,
                                     "replacement of an existing file. Only with --output.")
                            ->needs(output);
        auto* watch =
            app.add_flag("--serve",
                         arguments->watch,
                         "web server on this machine instead of a file; the page updates itself "
                         "until Ctrl-C, and its printed address is secret from other users")
                ->excludes(output)
                ->excludes(replace);
        app.add_option("--port",
                       arguments->port,
                       "port of the web server (default: a free port). Only with --serve.")
            ->transform(whole_number<std::int64_t>(1, 65535))
            ->needs(watch);
        return [arguments](Session& session) { return run_report(*arguments, session); };
      }};
}

}  // namespace longspan
