#include "launch/cli/run_watcher.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "checkpoints/step_directory.h"
#include "framework/report/log_warnings.h"
#include "launch/cli/run_record.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

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

}  // namespace

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

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

}  // namespace longspan
