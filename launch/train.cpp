// longspan train: trains, resumes, stops on request.
#include "launch/train.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <memory>

#include "launch/command.h"
#include "launch/configuration.h"

namespace longspan {
namespace {

Action bind(CLI::App& app) {
  const auto arguments = std::make_shared<ConfigurationArguments>();
  add_configuration(app, *arguments);
  return [arguments](Session& session) {
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads the console may leave
    return train(session,
                 read_configuration(arguments->file, arguments->settings, session.world()));
  };
}

}  // namespace

ExitCode train(Session& session, const ConfigurationText& source, const TrainingHooks& hooks) {
  const auto configuration = configure(source);
  return run_training(
      session,
      *configuration,
      {.configuration = configuration->table.resolved(),
       .warnings = configuration->table.warnings(),
       .compare = [&](const std::string& saved) { return compare(*configuration, saved); },
       .reconfigure = reconfiguration(source)},
      hooks);
}

Command train_command() {
  return {.name = "train",
          .description = "train a model; goes on from the newest checkpoint of its run directory",
          .examples =
              "  longspan train configs/quickstart.yaml\n"
              "  longspan run -n 2 -- train configs/quickstart.yaml --set training.steps=2000\n"
              "  longspan run -n 4 -- train configs/quickstart.yaml --set parallel.tensor=2\n",
          .bind = bind};
}

}  // namespace longspan
