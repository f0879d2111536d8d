#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "checkpoints/checkpoint.h"
#include "launch/checkpoint_path.h"
#include "launch/command.h"

namespace longspan {
namespace {

ExitCode run(const std::string& path, Session& session) {
  std::size_t damaged = 0;
  const auto steps = checkpoints_at(path);
  for (const auto& step : steps) {
    const auto problems = verify_checkpoint(step, session.world());
    std::string text =
        fmt::format("{}: {}\n", step.string(), problems.empty() ? "good" : "damaged");
    for (const CheckpointProblem& problem : problems) {
      text += fmt::format("  {}{}\n",
                          problem.sentence,
                          problem.prevents_reading ? "" : " (Longspan can still read the rest)");
    }
    print(session, text);
    if (!problems.empty()) ++damaged;
  }
  if (damaged > 0) {
    throw DataError("{}: {} of {} checkpoints damaged", path, damaged, steps.size());
  }
  return ExitCode::ok;
}

}  // namespace

Command verify_command() {
  return {"verify",
          "Check every byte of a checkpoint, or of all checkpoints of a run",
          "  longspan verify runs/quickstart\n"
          "  longspan verify runs/quickstart/checkpoints/step-000000500\n"
          "  mpirun -n 4 longspan verify runs/quickstart\n",
          [](CLI::App& app) -> Action {
            auto path = std::make_shared<std::string>();
            app.add_option("PATH", *path, "a checkpoint, or a run")->required();
            return [path](Session& session) { return run(*path, session); };
          }};
}

}  // namespace longspan
