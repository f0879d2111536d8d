// longspan tail: the newest lines of a run's metrics, as a table that may be followed.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "framework/training_loop/progress.h"
#include "framework/training_loop/run_directory.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/run_record.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

constexpr std::chrono::milliseconds between_readings{300};
constexpr std::int64_t max_lines = 1'000'000;

struct TailArguments {
  std::string run;
  std::int64_t lines = 10;
  bool follow = false;
};

// The values have the form of the console's. Column widths are fixed, as later lines follow. A line
// may contain anything, even terminal escape sequences.
std::string row(const std::vector<std::string>& cells) {
  std::string text;
  for (const std::string& cell : cells) text += fmt::format("{:>11}  ", on_one_line(cell));
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string header() { return row({"step", "loss", "lr", "grad_norm", "tokens/s", "validation"}); }

std::string row_of(const MetricsLine& line) {
  const std::string name = validation_name(line);
  std::string validation = format_metric(line, name);
  if (!name.empty() && name != "validation_loss")
    validation += " " + name.substr(name.find('_') + 1);
  const auto rate = [](double number) { return fmt::format("{:.2e}", number); };
  return row({format_metric(line, "step"),
              format_metric(line, "loss"),
              format_metric(line, "learning_rate", rate),
              format_metric(line, "grad_norm", 3),
              format_metric(line, "tokens_per_second", count_text),
              validation});
}

// Prints new lines until no process trains in the directory, then returns.
void follow(const std::filesystem::path& run, MetricsPart shown, const Session& session) {
  const std::filesystem::path file = run / metrics_file;
  bool ends = false;
  while (!ends) {
    ends = !is_running(run);  // checked before the final read, which then includes everything
                              // written
    const MetricsPart part = metrics_from(file, shown.end);
    if (part.end < shown.end)
      inform(session,
             fmt::format("{}: truncated, as the run resumed from an earlier step", file.string()));
    std::string text;
    for (const MetricsLine& line : part.lines) text += row_of(line);
    if (!text.empty()) print(session, text);
    if (!part.trouble.empty()) {
      inform(session, on_one_line(part.trouble));
      return;
    }
    shown.end = part.end;
    if (!ends) std::this_thread::sleep_for(between_readings);
  }
}

ExitCode run_tail(const TailArguments& arguments, Session& session) {
  if (session.world().rank() != 0) return ExitCode::ok;
  const std::filesystem::path path = arguments.run;
  for (const std::string& trouble : read_run(path).errors) inform(session, on_one_line(trouble));
  MetricsPart newest =
      newest_metrics(path / metrics_file, static_cast<std::size_t>(arguments.lines));
  std::string text = header();
  for (const MetricsLine& line : newest.lines) text += row_of(line);
  print(session, text);
  if (arguments.follow) follow(path, std::move(newest), session);
  const RunRecord record = read_run_record(path);
  inform(session,
         on_one_line(fmt::format("{}: {}, step {}{}",
                                 arguments.run,
                                 name_of(record.state),
                                 step_text(record),
                                 record.ended_by.empty() ? "" : ": " + record.ended_by)));
  return ExitCode::ok;
}

}  // namespace

Command tail_command() {
  return {
      .name = "tail",
      .description = "Show the last lines of a run's metrics and its status",
      .examples =
          "  longspan tail runs/quickstart\n"
          "  longspan tail runs/quickstart --follow\n"
          "  longspan tail runs/quickstart --lines 50\n",
      .bind = [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<TailArguments>();
        app.add_option("RUN", arguments->run, "run directory")->required()->check(not_empty_text());
        app.add_option("--lines", arguments->lines, "number of last lines (default: 10)")
            ->transform(whole_number<std::int64_t>(1, max_lines));
        app.add_flag("--follow",
                     arguments->follow,
                     "new lines as well, until no process trains in the run directory");
        return [arguments](Session& session) { return run_tail(*arguments, session); };
      }};
}

}  // namespace longspan
