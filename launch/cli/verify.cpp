#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <sstream>

#include "checkpoints/checkpoint.h"
#include "framework/core/format.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/resume.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/loaded_run.h"
#include "launch/cli/text_table.h"

namespace longspan {
namespace {

// An active run removes its oldest checkpoints, so the ranks agree on a list.
std::vector<std::filesystem::path> listed(const std::string& path, const Communicator& world) {
  std::string names;
  if (world.rank() == 0)
    for (const auto& step : checkpoints_at(path)) names += step.string() + '\0';
  std::istringstream stream(world.broadcast(std::move(names), 0));
  std::vector<std::filesystem::path> steps;
  for (std::string name; std::getline(stream, name, '\0');) steps.emplace_back(name);
  return steps;
}

bool is_gone(const std::filesystem::path& step, const Communicator& world) {
  std::error_code error;
  const bool there = std::filesystem::exists(step, error) || error;
  return world.all_reduce(std::int64_t{there}, Reduction::maximum) == 0;
}

// Returns all problems that `train` would reject with any configuration.
std::vector<std::string> judged(const Checkpoint& checkpoint) {
  std::vector<std::string> problems = value_problems(checkpoint);
  if (!problems.empty() || checkpoint.info().configuration.empty()) return problems;
  const Configuration nothing;
  try {
    change_since(checkpoint, [&](const std::string& saved) { return compare(nothing, saved); });
  } catch (const DataError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

ExitCode run_verify(const std::string& path, Session& session) {
  std::int64_t damaged = 0;
  std::int64_t checked = 0;
  for (const auto& step : listed(path, session.world())) {
    const auto problems =
        verify_checkpoint(step, session.world(), judged, reading_progress(step.string(), session));
    if (!problems.empty() && is_gone(step, session.world())) {
      print(session, fmt::format("{}: removed during verification\n", step.string()));
      continue;
    }
    ++checked;
    std::string text =
        fmt::format("{}: {}\n", step.string(), problems.empty() ? "valid" : "corrupt");
    for (const CheckpointProblem& problem : problems) {
      text += fmt::format("  {}{}\n",
                          problem.message,
                          problem.prevents_reading ? "" : " (does not prevent reading)");
    }
    print(session, text);
    if (!problems.empty()) ++damaged;
  }
  if (damaged > 0) {
    throw DataError("{}: {} of {} corrupt", path, damaged, pluralize(checked, "checkpoint"));
  }
  return ExitCode::ok;
}

}  // namespace

Command verify_command() {
  return {"verify",
          "Check every byte of a checkpoint or of all checkpoints of a run",
          "  longspan verify runs/quickstart\n"
          "  longspan verify runs/quickstart/checkpoints/step-000000900\n"
          "  longspan launch -n 4 -- verify runs/quickstart\n",
          [](CLI::App& app) -> Action {
            auto path = std::make_shared<std::string>();
            app.add_option("PATH", *path, "checkpoint, or run directory for all its checkpoints")
                ->required();
            return [path](Session& session) { return run_verify(*path, session); };
          }};
}

}  // namespace longspan
