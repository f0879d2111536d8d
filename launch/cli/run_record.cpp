#include "launch/cli/run_record.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoints/checkpoint.h"
#include "framework/core/error.h"
#include "framework/training_loop/run_directory.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

constexpr const char* configuration_file = "config.yaml";
constexpr const char* checkpoints_folder = "checkpoints";

// Subfolders that contain no runs and may contain many files.
constexpr std::array own_folders = {"checkpoints", "tokens"};

std::optional<std::int64_t> integer_of(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<std::int64_t> number_of(const SavedConfiguration& configuration, const char* key) {
  const auto found = configuration.values.find(key);
  return found == configuration.values.end() ? std::nullopt : integer_of(found->second);
}

// Returns the end of a log, at most that many bytes, starting at a complete line; "" if there is
// none.
std::string end_of(const fs::path& log) {
  constexpr std::int64_t most = 1 << 14;
  const Descriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.defined() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const std::int64_t begin = std::max<std::int64_t>(0, status.st_size - most);
  std::string text(static_cast<std::size_t>(status.st_size - begin), '\0');
  const ssize_t count = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return begin == 0 ? text : text.substr(text.find('\n') + 1);
}

// Returns the error in a line of a log, or "". A line is a date, a time, a level and a message.
std::string error_in(std::string_view line) {
  constexpr std::string_view level = " error ";
  const std::size_t date = line.find(' ');
  if (date == std::string_view::npos) return "";
  const std::size_t time = line.find(' ', date + 1);
  if (time == std::string_view::npos || !line.substr(time).starts_with(level)) return "";
  return std::string(line.substr(time + level.size()));
}

// Last messages of a log.
struct LogEnd {
  std::string error;      // its last line, if that is an error
  bool is_error_of_rank;  // the last line not from `longspan launch`
};

LogEnd log_end(const fs::path& log) {
  constexpr std::string_view launcher = " longspan launch: ";
  std::string text = end_of(log);
  LogEnd end = {};
  for (bool is_last = true; !text.empty(); is_last = false) {
    while (text.ends_with('\n')) text.pop_back();
    const std::size_t before = text.rfind('\n');
    const std::string line = before == std::string::npos ? text : text.substr(before + 1);
    text.resize(before == std::string::npos ? 0 : before);
    const std::string error = error_in(line);
    if (is_last) end.error = error;
    if (line.find(launcher) != std::string::npos) continue;
    end.is_error_of_rank = !error.empty();
    break;
  }
  return end;
}

// Matches the error messages with the exit code of a diverged run.
bool reports_divergence(std::string_view error) {
  return error.find("training diverged") != std::string_view::npos ||
         error.find("memory.reconstruction_tolerance") != std::string_view::npos;
}

std::int64_t changed_at(const fs::path& run) {
  std::int64_t newest = 0;
  for (const char* name : {metrics_file, log_file, configuration_file, checkpoints_folder}) {
    struct stat status {};
    if (::stat((run / name).c_str(), &status) == 0)
      newest = std::max<std::int64_t>(newest, status.st_mtime);
  }
  return newest;
}

void set_layout(RunRecord& run, const MeshShape& layout) {
  run.data = layout.data;
  run.context = layout.context;
  run.tensor = layout.tensor;
}

// Reads the newest checkpoint's layout. Returns its step, or -1 if there is none.
std::int64_t read_latest_layout(RunRecord& run) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const fs::path folder = run.path / checkpoints_folder;
    std::vector<std::int64_t> steps;
    try {
      steps = steps_in(folder);
    } catch (const DataError& error) {  // as for another user's private folder
      run.errors.emplace_back(error.what());
    }
    if (steps.empty()) return -1;
    const fs::path newest = folder / step_name(steps.back());
    try {
      const CheckpointInfo info = Checkpoint::open(newest).info();
      set_layout(run, info.layout);
      return info.step;
    } catch (const std::exception& error) {
      std::error_code ignored;
      if (!fs::exists(newest, ignored)) continue;  // the run removed it meanwhile
      run.errors.emplace_back(error.what());
      return steps.back();
    }
  }
  return -1;
}

void take_metrics(RunRecord& run) {
  MetricsPart newest = newest_metrics(run.path / metrics_file, 1);
  if (!newest.lines.empty()) {
    run.last = std::move(newest.lines.back());
    run.step = run.last.at("step").get<std::int64_t>();
  }
  if (!newest.trouble.empty()) run.errors.push_back(std::move(newest.trouble));
  MetricsPart validated = newest_validation(run.path / metrics_file);
  if (!validated.lines.empty()) run.validation = std::move(validated.lines.back());
}

// For a run that is not training. `saved`: the step of its newest checkpoint, or -1.
RunState state_of(const RunRecord& run, std::int64_t saved, bool was_killed) {
  if (!was_killed && !run.ended_by.empty())
    return reports_divergence(run.ended_by) ? RunState::diverged : RunState::failed;
  // The last step counts once it is saved. If a run's checkpoints were removed its metrics count.
  const std::int64_t reached = saved < 0 && !was_killed ? run.step : saved;
  if (run.steps && reached >= *run.steps && reached > 0) return RunState::finished;
  if (was_killed) return RunState::killed;
  return run.step == 0 ? RunState::never_started : RunState::stopped;
}

// Sets how a run that is not training has ended.
void take_end(RunRecord& run, std::int64_t saved, const std::optional<RunMark>& mark) {
  LogEnd end = log_end(run.path / log_file);
  run.ended_by = std::move(end.error);
  const bool was_killed = mark && !mark->has_ended && !end.is_error_of_rank;
  run.state = state_of(run, saved, was_killed);
  if (run.state == RunState::finished) run.ended_by.clear();
  if (run.state != RunState::killed || !run.ended_by.empty()) return;
  if (shows_locks(run.path, *mark))
    run.ended_by =
        "the run was killed or its host was lost; run the same command to resume from the newest "
        "checkpoint";
  else
    run.ended_by =
        fmt::format("the run was killed or is still running{} (its locks are not visible here)",
                    mark->host.empty() ? "" : " on " + mark->host);
}

// Adds the runs and the other folders in a folder. Does not follow links.
std::error_code scan_directory(const fs::path& folder,
                               std::vector<fs::path>& runs,
                               std::vector<fs::path>& folders) {
  std::error_code error;
  fs::directory_iterator place(folder, error);
  for (const fs::directory_iterator end; !error && place != end; place.increment(error)) {
    std::error_code ignored;
    if (place->is_symlink(ignored) || !place->is_directory(ignored)) continue;
    const fs::path& path = place->path();
    if (std::ranges::count(own_folders, path.filename().string()) > 0) continue;
    if (is_run(path)) runs.push_back(path);
    folders.push_back(path);
  }
  return error;
}

std::string number_text(const std::optional<std::int64_t>& number) {
  return number ? fmt::format("{}", *number) : "?";
}

}  // namespace

std::string name_of(RunState state) {
  switch (state) {
    case RunState::never_started:
      return "never started";
    case RunState::running:
      return "running";
    case RunState::finished:
      return "finished";
    case RunState::stopped:
      return "stopped";
    case RunState::killed:
      return "killed";
    case RunState::diverged:
      return "diverged";
    case RunState::failed:
      return "failed";
  }
  return "";
}

bool is_run(const fs::path& directory) {
  std::error_code error;
  const auto has = [&](const char* name) { return fs::exists(directory / name, error); };
  return has(metrics_file) ||
         (has(checkpoints_folder) && (has(configuration_file) || has(lock_name)));
}

RunsBelow runs_below(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error)) throw DataError("{}: no such directory", directory.string());
  if (!fs::is_directory(directory, error))
    throw DataError("{}: expected a directory of runs, found a file", directory.string());
  RunsBelow found;
  if (is_run(directory)) found.runs.push_back(directory);
  std::vector<fs::path> folders = {directory};
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    const std::error_code trouble = scan_directory(folder, found.runs, folders);
    if (trouble && folder == directory)
      throw DataError("{}: cannot be read: {}", folder.string(), trouble.message());
    // Folders removed meanwhile are not errors.
    if (trouble && trouble != std::errc::no_such_file_or_directory)
      found.errors.push_back(
          fmt::format("{}: cannot be read: {}", folder.string(), trouble.message()));
  }
  std::ranges::sort(found.runs);
  std::ranges::sort(found.errors);
  return found;
}

RunRecord read_run_record(const fs::path& path) {
  RunRecord run;
  run.path = path;
  // Checked first, as a run that ends during the read has written more than is read here.
  const bool runs_now = is_running(path);
  run.configuration = saved_configuration(path / configuration_file);
  std::error_code error;
  if (!fs::exists(path / configuration_file, error))
    run.errors.push_back(fmt::format("{}: no such file", (path / configuration_file).string()));
  else if (!run.configuration.trouble.empty())
    run.errors.push_back(run.configuration.trouble);
  run.steps = number_of(run.configuration, "training.max_steps");
  run.data = number_of(run.configuration, "parallel.data_parallel_size");
  run.context = number_of(run.configuration, "parallel.context_parallel_size");
  run.tensor = number_of(run.configuration, "parallel.tensor_parallel_size");
  take_metrics(run);
  const std::int64_t saved = read_latest_layout(run);
  run.step = std::max(run.step, saved);
  const std::optional<RunMark> mark = run_mark(path);
  if (mark) set_layout(run, mark->layout);
  if (runs_now)
    run.state = RunState::running;
  else
    take_end(run, saved, mark);
  run.changed_at = changed_at(path);
  return run;
}

RunRecord read_run(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw DataError("{}: no such directory", path.string());
  if (!fs::is_directory(path, error))
    throw DataError("{}: expected a run directory, found a file", path.string());
  if (!is_run(path))
    throw DataError(
        "{}: expected a run directory, found no run; run longspan list {} to list its runs",
        path.string(),
        path.string());
  return read_run_record(path);
}

std::string step_text(const RunRecord& run) {
  return run.steps ? fmt::format("{} of {}", run.step, *run.steps) : fmt::format("{}", run.step);
}

std::string validation_text(const RunRecord& run) {
  if (run.validation.is_null()) return "";
  const std::string name = validation_name(run.validation);
  std::string text = format_metric(run.validation, name);
  if (name != "validation_loss") text += " " + name.substr(name.find('_') + 1);
  const auto step = run.validation.at("step").get<std::int64_t>();
  return step == run.step ? text : fmt::format("{} at {}", text, step);
}

std::string layout_text(const RunRecord& run) {
  return fmt::format(
      "{} x {} x {}", number_text(run.data), number_text(run.context), number_text(run.tensor));
}

std::string time_text(std::int64_t seconds) {
  return seconds > 0 ? fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(seconds)) : "";
}

nlohmann::ordered_json to_json(const RunRecord& run) {
  const auto number = [](const std::optional<std::int64_t>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"run", run.path.string()},
          {"state", name_of(run.state)},
          {"step", run.step},
          {"max_steps", number(run.steps)},
          {"last_metrics", run.last},
          {"validation", run.validation},
          {"modified_at", run.changed_at},
          {"layout",
           {{"data", number(run.data)},
            {"context", number(run.context)},
            {"tensor", number(run.tensor)}}},
          {"end_reason", run.ended_by},
          {"errors", run.errors}};
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace longspan
