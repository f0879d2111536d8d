#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoints/files.h"
#include "checkpoints/step_directory.h"
#include "framework/core/format.h"
#include "framework/report/report_page.h"
#include "framework/report/tailed_file.h"
#include "framework/report/tailed_metrics.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/run_record.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

// The page of runs that may be training. Each update reads only what was appended, so its cost does
// not grow with the length of a run.
class RunWatcher {
 public:
  // Throws DataError as read_reported_run does, but not for a run that has logged no step yet.
  RunWatcher(const std::vector<std::filesystem::path>& paths, const ChartLibrary& library);

  // Polls the runs, at most twice a second. Returns an unchanged version if nothing is new.
  std::string version();
  // Page and update of that version.
  std::string page() const { return live_page(parts_, library_, version_text()); }
  std::string update() const { return page_update(parts_); }

 private:
  struct Watched {
    std::filesystem::path path;
    TailedMetrics metrics;
    TailedFile log;
    TailedFile samples;
    ReportedRun run;                        // without its metrics
    std::deque<std::string> warnings = {};  // of the log
    std::filesystem::path map = {};         // newest file of attention maps
    std::filesystem::file_time_type map_changed = {};
  };
  bool poll(Watched& watched) const;
  void make_parts();
  std::string version_text() const;

  const ChartLibrary& library_;
  std::vector<Watched> runs_;
  PageParts parts_;
  std::string beginning_;  // prefix of versions, different for each program start
  std::int64_t number_ = 0;
  std::chrono::steady_clock::time_point looked_;
};

namespace fs = std::filesystem;

constexpr const char* samples_file = "samples.jsonl";
constexpr const char* attention_folder = "attention";
constexpr std::chrono::milliseconds between_looks{500};

// The directory is the run's name already.
std::map<std::string, std::string> without_directory(std::map<std::string, std::string> values) {
  values.erase("run.output_dir");
  return values;
}

// Returns everything except metrics, log and samples.
ReportedRun described(const fs::path& path, RunRecord record) {
  return {.name = path.string(),
          .state = name_of(record.state),
          .steps = record.steps,
          .metrics = {DownsampledSeries(2)},
          .configuration = without_directory(std::move(record.configuration.values))};
}

// Returns the current time in seconds since 1970.
std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// Reads a run. Adds to `troubles` what cannot be read other than its metrics. Throws DataError if
// it is not a run, has logged no step, or has damaged metrics.
ReportedRun read_reported_run(const fs::path& path, std::vector<std::string>& troubles) {
  // Reads the state first: a run that ends during the read has then written more than its state
  // shows.
  RunRecord record = read_run(path);
  std::ranges::move(record.errors, std::back_inserter(troubles));
  ReportedRun run = described(path, std::move(record));
  run.metrics = read_run_metrics(path / metrics_file);
  run.warnings = log_warnings(path / log_file);
  run.samples = read_run_samples(path / samples_file);
  run.attention = read_run_attention(newest_attention(path / attention_folder));
  return run;
}

RunWatcher::RunWatcher(const std::vector<fs::path>& paths, const ChartLibrary& library)
    : library_(library), beginning_(unique_id()) {
  for (const fs::path& path : paths) {
    Watched watched = {.path = path,
                       .metrics = TailedMetrics(path / metrics_file),
                       .log = TailedFile(path / log_file),
                       .samples = TailedFile(path / samples_file),
                       .run = described(path, read_run(path))};
    watched.metrics.poll();
    runs_.push_back(std::move(watched));
  }
  for (Watched& watched : runs_) poll(watched);
  looked_ = std::chrono::steady_clock::now();
  make_parts();
}

// Returns whether anything is new. Read errors are shown among the warnings.
bool RunWatcher::poll(Watched& watched) const {
  std::vector<std::string> troubles;
  bool is_new = false;
  ReportedRun now = watched.run;
  const auto look_at = [&](const auto& part) {
    try {
      part();
    } catch (const Error& error) {
      troubles.emplace_back(error.what());
    }
  };
  look_at([&] {
    RunRecord record = read_run(watched.path);
    troubles = record.errors;
    now = described(watched.path, std::move(record));
    is_new = watched.metrics.poll();
  });
  look_at([&] {
    watched.log.follow(
        [&] { watched.warnings.clear(); },
        [&](std::string_view line, std::uintmax_t) { add_warning(watched.warnings, line); });
  });
  now.samples = std::move(watched.run.samples);
  look_at([&] {
    const bool is_more = watched.samples.follow(
        [&] { now.samples.clear(); },
        [&](std::string_view line, std::uintmax_t) { add_sample(now.samples, line); });
    is_new = is_more || is_new;
  });
  now.attention = std::move(watched.run.attention);
  look_at([&] {
    const fs::path map = newest_attention(watched.path / attention_folder);
    std::error_code error;
    const auto changed = fs::last_write_time(map, error);
    if (error || (map == watched.map && changed == watched.map_changed)) return;
    now.attention = read_run_attention(map);
    watched.map = map;
    watched.map_changed = changed;
    is_new = true;
  });
  now.warnings.assign(watched.warnings.begin(), watched.warnings.end());
  for (const std::string& trouble : troubles) now.warnings.push_back(on_one_line(trouble));
  is_new = is_new || now.state != watched.run.state || now.steps != watched.run.steps ||
           now.configuration != watched.run.configuration || now.warnings != watched.run.warnings;
  watched.run = std::move(now);
  return is_new;
}

void RunWatcher::make_parts() {
  std::vector<ReportedRun> runs;
  for (const Watched& watched : runs_) {
    runs.push_back(watched.run);
    runs.back().metrics = watched.metrics.metrics();
  }
  parts_ = page_parts(std::move(runs), seconds_now());
  ++number_;
}

std::string RunWatcher::version() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ >= between_looks) {
    bool is_new = false;
    for (Watched& watched : runs_) is_new = poll(watched) || is_new;
    if (is_new) make_parts();
    looked_ = std::chrono::steady_clock::now();
  }
  return version_text();
}

std::string RunWatcher::version_text() const { return fmt::format("{}-{}", beginning_, number_); }

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
